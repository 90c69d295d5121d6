/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/cmd_why_pending.c: see cmd_why_pending.h.
 *
 * For:       requests without a row, and the ids that clients have of theirs.
 * Called by: cmd_why.c.
 * Knows not: rows. */
#include "gateway/cmd_why_pending.h"

#include <stdio.h>
#include <string.h>

#include "config/base/span.h"

#define ID_DIGITS 32 /* of exchange and trace ids: see exchange.c; W3C Trace Context, trace-id */

struct span cmd_why_inner_id(struct span id)
{
    size_t digits = 0;

    for (size_t i = 0; i <= id.size; i++) {
        const bool ends = i == id.size || id.data[i] == '-' || id.data[i] == '_';

        if (ends && digits == ID_DIGITS && digits < id.size)
            return (struct span){id.data + i - digits, digits};
        if (ends)
            digits = 0;
        else if (strchr("0123456789abcdef", id.data[i]) != NULL && id.data[i] != '\0')
            digits++;
        else
            digits = SIZE_MAX / 2; /* no id until the next part begins */
    }
    return (struct span){NULL, 0};
}

/* What came from outside may be any bytes. */
static json_t *text_tree(struct span text)
{
    json_t *tree = text.size > 0 ? json_stringn(text.data, text.size) : json_null();

    return tree != NULL ? tree : json_string("?");
}

struct adding {
    json_t *array;
    bool failed;
};

static bool add_pending(void *owner, const struct books_pending *pending)
{
    static const char *const states[] = {
        [PENDING_UNDER_WAY] = "under_way", [PENDING_ENDED] = "ended", [PENDING_LEFT] = "left"};
    struct adding *adding = owner;
    char admitted[PERIOD_TEXT_BYTES];

    (void)period_print_utc(pending->admitted_us, admitted);
    adding->failed =
        json_array_append_new(
            adding->array,
            json_pack("{s:n, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:s}", "row", "kind", "pending",
                      "state", states[pending->state], "process", text_tree(pending->process),
                      "exchange_id", text_tree(pending->exchange_id), "request_id",
                      text_tree(pending->request_id), "trace_id", text_tree(pending->trace_id),
                      "tenant", text_tree(pending->tenant), "admitted", admitted)) != 0;
    return !adding->failed;
}

bool cmd_why_add_pending(struct books *books, struct span id, json_t *array)
{
    struct adding adding = {.array = array};
    char problem[512] = "";

    if (books_pending(books, id, add_pending, &adding, problem, sizeof(problem)) != OK)
        (void)fprintf(stderr, "tollgate: requests may be hidden in a table: %s\n", problem);
    return !adding.failed;
}

static const char *text_of(const json_t *pending, const char *name)
{
    const char *text = json_string_value(json_object_get(pending, name));

    return text != NULL ? text : "-";
}

void cmd_why_print_pending(const json_t *array)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *pending = json_array_get(array, i);
        const char *state = text_of(pending, "state");
        const char *process = text_of(pending, "process");

        (void)fprintf(stderr, "tollgate: exchange %s of tenant %s, admitted %s, has no row yet: ",
                      text_of(pending, "exchange_id"), text_of(pending, "tenant"),
                      text_of(pending, "admitted"));
        if (strcmp(state, "left") == 0)
            (void)fprintf(stderr,
                          "its process %s died. The next gateway that starts on this journal makes "
                          "the row; one that runs does within seconds\n",
                          process);
        else if (strcmp(state, "ended") == 0)
            (void)fprintf(
                stderr, "it has ended, and its process %s writes the row in a moment: ask again\n",
                process);
        else
            (void)fprintf(stderr, "it is under way in the process %s\n", process);
    }
}
