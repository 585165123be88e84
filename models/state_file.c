/* Saved states as files: the engine's streams on a file that is replaced whole, or read to its end.
 */
#include "loaders/reader.h"
#include "loaders/writer.h"
#include "runtime/session.h"

static int write_bytes(void *user_data, const void *data, size_t size)
{
    struct rwk_writer *writer = user_data;
    rwk_writer_put(writer, data, size);
    return writer->os_error;
}

enum rwk_status rwk_session_save_file(struct rwk_session *session, const char *path,
                                      struct rwk_error *error)
{
    struct rwk_writer writer;
    struct rwk_memory memory;
    struct rwk_arena arena = { .memory = &memory };
    rwk_memory_init(&memory, session->options.allocator, 0);
    enum rwk_status status = rwk_writer_open(&writer, path, 0600, &arena, error);
    if (!status) {
        status = rwk_session_save_named(session, write_bytes, &writer, path, error);
        if (status)
            rwk_writer_abandon(&writer);
        else
            status = rwk_writer_commit(&writer, error);
    }
    rwk_arena_finish(&arena);
    return status;
}

enum rwk_status rwk_session_load_file(struct rwk_session **ret_session, struct rwk_model *model,
                                      const struct rwk_session_options *options, const char *path,
                                      struct rwk_error *error)
{
    struct rwk_reader reader;
    struct rwk_session *session = NULL;
    enum rwk_status status = rwk_reader_open(&reader, path, error);
    if (status)
        return status;
    status =
        rwk_session_load_named(&session, model, options, rwk_reader_read, &reader, path, error);
    if (!status && reader.at != reader.size) {
        rwk_session_close(&session);
        status = rwk_fail_at(error, RWK_STATUS_FORMAT,
                             &(struct rwk_where) { .file = path, .offset = reader.at },
                             "bytes follow the end of the state");
    }
    rwk_reader_close(&reader);
    if (!status)
        *ret_session = session;
    return status;
}
