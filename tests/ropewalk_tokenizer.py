"""The tokenizer's C functions through ctypes, for scripts that compare and measure."""

import ctypes


class Error(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint32),
        ("status", ctypes.c_int32),
        ("os_error", ctypes.c_int32),
        ("reserved", ctypes.c_uint32),
        ("byte_offset", ctypes.c_uint64),
        ("file", ctypes.c_char * 512),
        ("subject", ctypes.c_char * 256),
        ("message", ctypes.c_char * 1024),
    ]


class Span(ctypes.Structure):
    _fields_ = [("begin", ctypes.c_uint64), ("end", ctypes.c_uint64)]


ADD_SPECIAL, SKIP_SPECIAL = 1, 1


class Ropewalk:
    def __init__(self, library, path):
        self.l = ctypes.CDLL(library)
        self.t = ctypes.c_void_p()
        error = Error(size=ctypes.sizeof(Error))
        status = self.l.rwk_tokenizer_open(
            ctypes.byref(self.t), path.encode(), None, ctypes.byref(error)
        )
        self.check(status, error.message.decode())

    def __del__(self):
        self.l.rwk_tokenizer_close(ctypes.byref(self.t))

    @staticmethod
    def check(status, what):
        if status:
            raise ValueError(f"{what}: status {status}")

    def encode(self, text, special=False, offsets=True):
        data = text.encode()
        capacity = 32 * len(data) + 64
        ids, spans, n = (
            (ctypes.c_uint32 * capacity)(),
            (Span * capacity)() if offsets else None,
            ctypes.c_size_t(),
        )
        self.check(
            self.l.rwk_tokenizer_encode(
                self.t,
                data,
                ctypes.c_size_t(len(data)),
                ADD_SPECIAL if special else 0,
                ids,
                ctypes.c_size_t(capacity),
                spans,
                ctypes.byref(n),
                None,
            ),
            "encode",
        )
        return ids[: n.value], [(s.begin, s.end) for s in spans[: n.value]] if offsets else None

    def decode(self, ids, skip=False):
        array, n = (ctypes.c_uint32 * len(ids))(*ids), ctypes.c_size_t()
        text = ctypes.create_string_buffer(1 << 16)
        self.check(
            self.l.rwk_tokenizer_decode(
                self.t,
                array,
                ctypes.c_size_t(len(ids)),
                SKIP_SPECIAL if skip else 0,
                text,
                ctypes.c_size_t(len(text)),
                ctypes.byref(n),
                None,
            ),
            "decode",
        )
        return text.raw[: n.value].decode()

    def stream(self, ids, skip=False):
        stream, text, n, stopped = (
            ctypes.c_void_p(),
            ctypes.c_void_p(),
            ctypes.c_size_t(),
            ctypes.c_int(),
        )
        self.check(
            self.l.rwk_stream_create(
                ctypes.byref(stream), self.t, SKIP_SPECIAL if skip else 0, None
            ),
            "stream",
        )
        got = []
        for i in list(ids) + [None]:
            if i is not None:
                self.check(
                    self.l.rwk_stream_push(
                        stream, i, ctypes.byref(text), ctypes.byref(n), ctypes.byref(stopped), None
                    ),
                    "push",
                )
            else:
                self.check(
                    self.l.rwk_stream_flush(stream, ctypes.byref(text), ctypes.byref(n), None),
                    "flush",
                )
            got.append(ctypes.string_at(text.value, n.value).decode())
        self.l.rwk_stream_close(ctypes.byref(stream))
        return "".join(got)
