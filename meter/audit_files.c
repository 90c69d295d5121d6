/* SPDX-License-Identifier: Apache-2.0 */
/* meter/audit_files.c: which files an audit goes through.
 *
 * For:       the journal's files, and the first and last lines of those that retention deleted, in
 *            one order; which of them holds a row.
 * Called by: audit.c and its other parts.
 * Knows not: what lines say, but for what retired.jsonl is made of. */
#include "meter/audit.h"

#include <errno.h>
#include <stdlib.h>

#include "meter/retire.h"

static int compare(const char *gateway, uint64_t epoch, uint64_t seq,
                   const struct journal_file *file)
{
    const int by_gateway = strcmp(gateway, file->gateway);

    if (by_gateway != 0)
        return by_gateway;
    if (epoch != file->epoch)
        return epoch < file->epoch ? -1 : 1;
    return seq == file->first_seq ? 0 : seq < file->first_seq ? -1 : 1;
}

/* A file that is still there comes before what says that it was deleted. */
static int by_place(const void *left, const void *right)
{
    const struct audit_piece *a = left;
    const struct audit_piece *b = right;
    const int order = compare(a->file.gateway, a->file.epoch, a->file.first_seq, &b->file);

    return order != 0 ? order : (int)a->retired - (int)b->retired;
}

/* ---- what retention left ---- */

/* Two lines of retired.jsonl: a file's open and its head. */
static bool is_pair(const struct record *open, const struct record *head)
{
    return open->kind == RECORD_OPEN && head->kind == RECORD_HEAD &&
           span_equal(open->gateway, head->gateway) && open->epoch == head->epoch &&
           open->seq == head->first_seq;
}

static bool piece_of_pair(const struct record *open, struct audit_piece *out_piece)
{
    char gateway[sizeof(out_piece->file.gateway)];
    char name[NAME_MAX + 1];

    *out_piece = (struct audit_piece){.retired = true};
    (void)record_text(open->gateway, gateway, sizeof(gateway));
    files_print_name(span_of(gateway), open->epoch, open->seq, name);
    return files_parse_name(name, &out_piece->file);
}

/* Calls visit for each pair until it returns false. tell: what is no pair is a finding. */
static void each_retired(struct audit *audit, struct lines *lines, bool tell,
                         bool (*visit)(struct audit *audit, const struct audit_piece *piece,
                                       struct audit_piece *wanted),
                         struct audit_piece *wanted)
{
    struct record open = {.kind = RECORD_CALL};
    struct record record;
    struct audit_piece piece;
    struct span line, open_line = {NULL, 0};
    char problem[256];
    int64_t open_at = -1;

    for (;;) {
        const int64_t at = (int64_t)lines->at;
        if (lines_next(lines, &line) != LINE_WHOLE)
            return;
        if (record_read(line, &record, problem, sizeof(problem)) != OK) {
            if (tell) /* what it stood for is missing, or was noted again */
                audit_tell(audit, AUDIT_NOTE, RETIRED_FILE, 0, at, "a line that was cut: %s",
                           problem);
            continue;
        }
        if (record.kind == RECORD_OPEN) {
            open = record;
            open_line = line;
            open_at = at;
            continue;
        }
        if (!is_pair(&open, &record) || !piece_of_pair(&open, &piece)) {
            if (tell)
                audit_tell(audit, AUDIT_DAMAGED, RETIRED_FILE, record.seq, at,
                           "not the head of the open line before it");
            continue;
        }
        piece.open = open_line;
        piece.head = line;
        piece.offset = open_at;
        if (!visit(audit, &piece, wanted))
            return;
    }
}

static bool add_piece(struct audit *audit, const struct audit_piece *piece,
                      struct audit_piece *wanted)
{
    (void)wanted;
    if (!audit_room(audit, &audit->pieces, &audit->piece_room, audit->piece_count, sizeof(*piece)))
        return false;
    audit->pieces[audit->piece_count++] = *piece;
    return true;
}

static bool take_wanted(struct audit *audit, const struct audit_piece *piece,
                        struct audit_piece *wanted)
{
    (void)audit;
    if (compare(piece->file.gateway, piece->file.epoch, piece->file.first_seq, &wanted->file) != 0)
        return true;
    *wanted = *piece;
    return false;
}

bool audit_retire(struct audit *audit, struct audit_piece *piece)
{
    lines_close(&audit->retired_since);
    audit->retired_since = (struct lines){0};
    if (lines_open(audit->directory_fd, RETIRED_FILE, 0, &audit->retired_since) != OK)
        return false;
    each_retired(audit, &audit->retired_since, false, take_wanted, piece);
    return piece->retired;
}

/* ---- the list ---- */

/* A file that is there needs nobody to stand for it; one that was noted twice is one. */
static void drop_doubles(struct audit *audit)
{
    size_t kept = 0;

    for (size_t i = 0; i < audit->piece_count; i++) {
        const struct journal_file *file = &audit->pieces[i].file;
        if (kept > 0 && compare(file->gateway, file->epoch, file->first_seq,
                                &audit->pieces[kept - 1].file) == 0)
            continue;
        if (kept != i)
            audit->pieces[kept] = audit->pieces[i];
        kept++;
    }
    audit->piece_count = kept;
}

static bool same_epoch(const struct audit_piece *a, const struct audit_piece *b)
{
    return a->file.epoch == b->file.epoch && strcmp(a->file.gateway, b->file.gateway) == 0;
}

static enum err group_epochs(struct audit *audit)
{
    audit->epochs = calloc(audit->piece_count + 1, sizeof(*audit->epochs));
    if (audit->epochs == NULL)
        return ERR_NO_MEMORY;
    for (size_t i = 0; i < audit->piece_count; i++) {
        if (i == 0 || !same_epoch(&audit->pieces[i - 1], &audit->pieces[i]))
            audit->epochs[audit->epoch_count++].first = i;
        audit->epochs[audit->epoch_count - 1].count++;
    }
    return OK;
}

enum err audit_list(struct audit *audit, char *problem, size_t problem_size)
{
    struct journal_file *files = NULL;
    size_t count = 0;
    enum err err = files_list(audit->directory_fd, &files, &count, problem, problem_size);

    for (size_t i = 0; err == OK && i < count; i++) {
        const struct audit_piece piece = {.file = files[i], .offset = -1};
        if (!add_piece(audit, &piece, NULL))
            err = ERR_NO_MEMORY;
    }
    free(files);
    if (err == OK && lines_open(audit->directory_fd, RETIRED_FILE, 0, &audit->retired) == OK)
        each_retired(audit, &audit->retired, false, add_piece, NULL);
    if (err == OK)
        err = audit->err;
    if (err != OK)
        return err;
    if (audit->piece_count > 0)
        qsort(audit->pieces, audit->piece_count, sizeof(*audit->pieces), by_place);
    drop_doubles(audit);
    return group_epochs(audit);
}

void audit_unlist(struct audit *audit)
{
    for (size_t i = 0; i < audit->epoch_count; i++)
        free(audit->epochs[i].buckets);
    free(audit->epochs);
    free(audit->pieces);
    free(audit->namings);
    lines_close(&audit->retired);
    audit->epochs = NULL;
    audit->epoch_count = 0;
    audit->pieces = NULL;
    audit->piece_count = audit->piece_room = 0;
    audit->namings = NULL;
    audit->naming_count = audit->naming_room = 0;
    audit->retired = (struct lines){0};
}

static bool take_none(struct audit *audit, const struct audit_piece *piece,
                      struct audit_piece *wanted)
{
    (void)audit;
    (void)piece;
    (void)wanted;
    return true;
}

void audit_check_retired(struct audit *audit)
{
    audit->retired.at = 0;
    if (audit->retired.data != NULL)
        each_retired(audit, &audit->retired, true, take_none, NULL);
}

/* ---- looking up ---- */

uint32_t audit_piece_named(const struct audit *audit, const char *name)
{
    struct journal_file file;
    size_t low = 0, high = audit->piece_count;

    if (!files_parse_name(name, &file))
        return AUDIT_NO_PIECE;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order =
            compare(file.gateway, file.epoch, file.first_seq, &audit->pieces[middle].file);
        if (order == 0)
            return (uint32_t)middle;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return AUDIT_NO_PIECE;
}

struct audit_epoch *audit_epoch_of(const struct audit *audit, const char *gateway, uint64_t epoch)
{
    size_t low = 0, high = audit->epoch_count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct journal_file *file = &audit->pieces[audit->epochs[middle].first].file;
        const int order = compare(gateway, epoch, file->first_seq, file);
        if (order == 0)
            return &audit->epochs[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

uint32_t audit_piece_of(const struct audit *audit, const struct audit_epoch *epoch, uint64_t seq)
{
    size_t low = epoch->first, high = epoch->first + epoch->count;

    while (low < high) { /* the last that does not begin behind seq */
        const size_t middle = low + (high - low) / 2;
        if (audit->pieces[middle].file.first_seq <= seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low == epoch->first ? AUDIT_NO_PIECE : (uint32_t)(low - 1);
}
