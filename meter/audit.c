/* SPDX-License-Identifier: Apache-2.0 */
/* meter/audit.c: does the journal hold what it promises?
 *
 * For:       books_audit(): one pass over all files in the order of gateways, epochs and lines.
 * Called by: gateway/cmd_audit.c through books.h.
 * Knows not: how findings are shown.
 *
 * A gateway may write meanwhile. So anchors are read before files are listed, opens before the
 * lines that they name, the journal before the ledger: what is named was there already. */
#include "meter/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "meter/retire.h"
#include "meter/store.h"
#include "meter/underway.h"

#define LISTINGS_MAX 5 /* a busy directory settles sooner */

void audit_tell(struct audit *audit, enum audit_finding_kind kind, const char *file, uint64_t seq,
                int64_t offset, const char *format, ...)
{
    char says[AUDIT_SAYS_BYTES];
    const struct audit_finding finding = {
        .kind = kind, .file = file, .seq = seq, .offset = offset, .says = says};
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(says, sizeof(says), format, arguments);
    va_end(arguments);
    if (kind != AUDIT_NOTE)
        audit->sums.findings++;
    audit->visit(audit->owner, &finding);
}

bool audit_room(struct audit *audit, void *array, size_t *room, size_t count, size_t item_bytes)
{
    void **items = array;
    const size_t wanted = *room == 0 ? 64 : 2 * *room;
    void *grown;

    if (count < *room)
        return true;
    grown = realloc(*items, wanted * item_bytes);
    if (grown == NULL) {
        audit->err = ERR_NO_MEMORY;
        return false;
    }
    *items = grown;
    *room = wanted;
    return true;
}

/* What the chain tells is of the line that we are at. */
static void tell_of_line(struct chain *chain, enum audit_finding_kind kind, uint64_t seq,
                         const char *says)
{
    struct audit *audit = (struct audit *)chain;

    audit_tell(audit, kind, audit->at_file, seq, audit->at_offset, "%s", says);
}

/* ---- the pass ---- */

static void read_lines(struct audit *audit, uint32_t number, struct audit_epoch *epoch,
                       struct lines *lines, bool last)
{
    struct record record;
    struct span line;
    enum line_state state;

    audit->sums.files++;
    chain_file(&audit->chain, audit->pieces[number].file.first_seq);
    for (;;) {
        audit->at_offset = (int64_t)lines->at;
        state = lines_next(lines, &line);
        if (state != LINE_WHOLE || audit->err != OK)
            break;
        audit->sums.lines++;
        const bool is_row = chain_line(&audit->chain, line, &record);
        audit_met(audit, number, audit->chain.seq, audit->chain.hash);
        if (is_row)
            audit_row(audit, number, epoch, &record);
    }
    chain_file_end(&audit->chain, state == LINE_TORN, last);
}

static void read_retired(struct audit *audit, uint32_t number)
{
    const struct audit_piece *piece = &audit->pieces[number];
    char hash[CHAIN_HASH_BYTES];

    audit->at_file = RETIRED_FILE;
    audit->at_offset = piece->offset;
    chain_retired(&audit->chain, piece->open, piece->head);
    line_hash(piece->open, hash);
    audit_met(audit, number, piece->file.first_seq, hash);
    audit_met(audit, number, audit->chain.seq, audit->chain.hash);
}

static void read_piece(struct audit *audit, uint32_t number, struct audit_epoch *epoch, bool last)
{
    struct audit_piece *piece = &audit->pieces[number];
    struct lines lines = {0};

    audit->at_file = piece->file.name;
    audit->at_offset = -1;
    if (piece->retired) {
        read_retired(audit, number);
    } else if (lines_open(audit->directory_fd, piece->file.name, 0, &lines) == OK) {
        read_lines(audit, number, epoch, &lines, last);
        lines_close(&lines);
    } else if (errno != ENOENT) {
        audit_tell(audit, AUDIT_MISSING, piece->file.name, 0, -1, "cannot be read: %s",
                   strerror(errno));
        return;
    } else if (audit_retire(audit, piece)) {
        read_retired(audit, number);
    } else {
        audit_tell(audit, AUDIT_MISSING, piece->file.name, 0, -1, "was deleted meanwhile");
        return;
    }
    audit_unmet(audit, number);
}

/* What a file has to show. A process makes its next file before it closes the one before it: killed
 * in between it leaves one without lines. */
enum showing { SHOWS_NOTHING, SHOWS_BYTES, SHOWS_LINES };

static enum showing look_at(const struct audit *audit, const struct audit_piece *piece)
{
    enum showing showing = SHOWS_LINES;
    struct lines lines = {0};
    struct span line;

    if (!piece->retired && lines_open(audit->directory_fd, piece->file.name, 0, &lines) == OK) {
        if (lines_next(&lines, &line) != LINE_WHOLE)
            showing = lines.bytes > 0 ? SHOWS_BYTES : SHOWS_NOTHING;
        lines_close(&lines);
    }
    return showing;
}

static void read_epoch(struct audit *audit, struct audit_epoch *epoch)
{
    const struct journal_file *file = &audit->pieces[epoch->first].file;
    size_t last = epoch->count, end = epoch->count;
    enum showing showing;

    chain_begin(&audit->chain, file->gateway, file->epoch);
    while (last > 1 &&
           (showing = look_at(audit, &audit->pieces[epoch->first + last - 1])) != SHOWS_LINES) {
        /* What comes into it from now on is not read: the head before it may not be there yet. */
        if (showing == SHOWS_NOTHING && end == last)
            end--;
        last--;
    }
    for (size_t i = end; i < epoch->count; i++)
        audit_unmet(audit, (uint32_t)(epoch->first + i));
    for (size_t i = 0; i < end && audit->err == OK; i++)
        read_piece(audit, (uint32_t)(epoch->first + i), epoch, i + 1 >= last);
    if (!audit->chain.unlinked)
        audit->linked_gateway = file->gateway;
    else if (audit->linked_gateway != NULL && strcmp(audit->linked_gateway, file->gateway) == 0)
        audit_tell(audit, AUDIT_CHAIN, file->name, 0, -1,
                   "lines of version 1, though this gateway wrote version 2 before");
    epoch->last_seq = audit->chain.seq;
    epoch->closed = audit->chain.ended_file;
}

/* ---- the keys ---- */

static enum err open_keys(struct audit *audit, char *problem, size_t problem_size)
{
    const char *const *paths = audit->options->public_keys;
    char key[SIGN_PATH_BYTES], beside[SIGN_PATH_BYTES];
    enum err err = OK;

    if (paths[0] == NULL) {
        store_key_path(audit->config, key);
        sign_public_path(key, beside);
        return keyring_add(&audit->keys, beside, problem, problem_size);
    }
    for (size_t i = 0; err == OK && paths[i] != NULL; i++)
        err = keyring_add(&audit->keys, paths[i], problem, problem_size);
    return err;
}

/* What has no row, table by table. */
struct rowless {
    struct audit *audit;
    char file[NAME_MAX + 1]; /* of a process that died */
    uint64_t requests;
};

static void tell_left(struct rowless *rowless)
{
    if (rowless->requests > 0)
        audit_tell(rowless->audit, AUDIT_NOTE, rowless->file, 0, -1,
                   "%" PRIu64 " request%s of a process that died %s no row yet: the next gateway "
                   "on this folder makes %s",
                   rowless->requests, span_plural(rowless->requests),
                   rowless->requests == 1 ? "has" : "have", rowless->requests == 1 ? "it" : "them");
    rowless->requests = 0;
}

static bool take_rowless(void *owner, const struct underway *found)
{
    struct rowless *rowless = owner;

    if (rowless->requests > 0 && strcmp(found->file, rowless->file) != 0)
        tell_left(rowless);
    if (found->slot == NULL) { /* damaged, or of another version: nothing makes rows of it */
        audit_tell(rowless->audit, AUDIT_NOTE, found->file, 0, -1,
                   "%s; what was under way in it has no row here", found->why);
    } else if (rowless->requests > 0 || !underway_is_alive(found->table_fd)) {
        (void)snprintf(rowless->file, sizeof(rowless->file), "%s", found->file);
        rowless->requests++;
    }
    return true;
}

/* What no check of ours can make up for. */
static void tell_limits(struct audit *audit)
{
    struct rowless rowless = {.audit = audit};

    if (faccessat(audit->directory_fd, STORE_KEY_NAME, F_OK, 0) == 0)
        audit_tell(audit, AUDIT_NOTE, NULL, 0, -1,
                   STORE_KEY_NAME
                   " lies in the journal's directory: who may write the journal can sign "
                   "it, too; let meter.signing_key name a place of its own");
    if (audit->options->public_keys[0] == NULL)
        audit_tell(audit, AUDIT_NOTE, NULL, 0, -1,
                   "the public key was read from where the gateway keeps it: keep a copy elsewhere "
                   "and name it (--public-key)");
    if (audit->anchors_path == NULL)
        audit_tell(audit, AUDIT_NOTE, NULL, 0, -1,
                   "no anchors: that the newest lines were cut off would not be seen");
    else if (audit->sums.rows_after_last_anchor > 0)
        audit_tell(audit, AUDIT_NOTE, NULL, 0, -1,
                   "%" PRIu64
                   " rows came after the last anchor: that some of them were cut off would "
                   "not be seen",
                   audit->sums.rows_after_last_anchor);
    underway_each(audit->directory_fd, take_rowless, &rowless);
    tell_left(&rowless);
}

/* ---- the run ---- */

static enum err open_journal(struct audit *audit, char *problem, size_t problem_size)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof(path), "%.*s", (int)audit->config->journal.size,
                   audit->config->journal.size > 0 ? audit->config->journal.data : "");
    audit->directory_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (audit->directory_fd >= 0)
        return OK;
    (void)snprintf(problem, problem_size, "journal directory %s: %s", path, strerror(errno));
    return ERR_INTERNAL;
}

static enum err open_anchors(struct audit *audit, char *path, size_t path_size, char *problem,
                             size_t problem_size)
{
    const struct span configured = audit->config->anchor_file;

    if (audit->options->anchors != NULL)
        (void)snprintf(path, path_size, "%s", audit->options->anchors);
    else if (configured.size > 0)
        (void)snprintf(path, path_size, "%.*s", (int)configured.size, configured.data);
    else
        return OK;
    audit->anchors_path = path;
    if (lines_open(AT_FDCWD, path, 0, &audit->anchors) == OK)
        return OK;
    if (audit->options->anchors == NULL && errno == ENOENT) { /* none was told yet */
        audit->anchors_path = NULL;
        return OK;
    }
    (void)snprintf(problem, problem_size, "anchors %s: %s", path, strerror(errno));
    return ERR_INTERNAL;
}

/* Files may come while others are being listed: what names them is read again then. */
static enum err list_and_name(struct audit *audit, char *problem, size_t problem_size)
{
    enum err err = OK;

    for (int i = 0; i < LISTINGS_MAX && err == OK; i++) {
        audit_unlist(audit);
        err = audit_list(audit, problem, problem_size);
        if (err != OK || !audit_names_more(audit))
            break;
    }
    if (err == OK) {
        audit_check_retired(audit);
        audit_name(audit);
    }
    return err == OK ? audit->err : err;
}

static void audit_fini(struct audit *audit)
{
    audit_unlist(audit);
    lines_close(&audit->anchors);
    lines_close(&audit->retired_since);
    keyring_close(&audit->keys);
    free(audit->ids);
    free(audit->adjusts);
    if (audit->directory_fd >= 0)
        (void)close(audit->directory_fd);
}

enum err books_audit(struct books *books, const struct config *config,
                     const struct audit_options *options,
                     void (*visit)(void *owner, const struct audit_finding *finding), void *owner,
                     struct audit_sums *out_sums, char *problem, size_t problem_size)
{
    struct audit audit = {.chain.tell = tell_of_line,
                          .books = books,
                          .config = config,
                          .options = options,
                          .directory_fd = -1,
                          .visit = visit,
                          .owner = owner};
    char anchors_path[PATH_MAX];
    enum err err = open_journal(&audit, problem, problem_size);

    if (err == OK)
        err = open_keys(&audit, problem, problem_size);
    audit.chain.keys = &audit.keys;
    if (err == OK)
        err = open_anchors(&audit, anchors_path, sizeof(anchors_path), problem, problem_size);
    if (err == OK)
        err = list_and_name(&audit, problem, problem_size);
    for (size_t i = 0; err == OK && i < audit.epoch_count; i++) {
        read_epoch(&audit, &audit.epochs[i]);
        err = audit.err;
    }
    if (err == OK) {
        audit_check_adjusts(&audit);
        if (options->against_ledger && books != NULL)
            audit_check_ledger(&audit);
        audit.sums.heads = audit.chain.heads;
        for (size_t i = 0; i < audit.keys.count; i++)
            audit.sums.signers[audit.sums.signer_count++] = audit.keys.keys[i].signer;
        tell_limits(&audit);
        err = audit.err;
    }
    if (err == ERR_NO_MEMORY)
        (void)snprintf(problem, problem_size, "no memory");
    *out_sums = audit.sums;
    audit_fini(&audit);
    return err;
}
