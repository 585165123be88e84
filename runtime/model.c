/* References to a model: the last one takes it down. */
#include "runtime/model.h"

struct rwk_model *rwk_model_retain(struct rwk_model *model)
{
    atomic_fetch_add_explicit(&model->references, 1, memory_order_relaxed);
    return model;
}

void rwk_model_close(struct rwk_model **model)
{
    struct rwk_model *m = model ? *model : NULL;
    if (!m)
        return;
    *model = NULL;
    if (atomic_fetch_sub_explicit(&m->references, 1, memory_order_acq_rel) == 1)
        m->destroy(m);
}
