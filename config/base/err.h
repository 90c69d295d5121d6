/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/err.h: every way something can fail, by name.
 *
 * For:       one enum for all rooms, made from err.def; how it looks as HTTP is read in
 *            gateway/reply.c alone.
 * Called by: any room.
 * Knows not: HTTP bodies, logs. */
#ifndef CONFIG_BASE_ERR_H
#define CONFIG_BASE_ERR_H

#include "config/base/vocab.h"

enum err {
    OK = 0,
#define ERR(name, http, retry, type, code, says) ERR_##name,
#include "config/base/err.def"
#undef ERR
    ERR_COUNT
};

/* What the client is told of an err. Texts are static. */
struct err_row {
    const char *name; /* lower case, for logs and metrics: "bad_json" is the code; name is unique */
    int status;
    bool retry; /* an answer that carries retry-after */
    const char *type;
    const char *code;
    const char *says;
};

/* The row of an err; that of ERR_INTERNAL for a value out of range. Never NULL. */
const struct err_row *err_row(enum err err);

#endif
