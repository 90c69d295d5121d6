/* SPDX-License-Identifier: Apache-2.0 */
/* meter/adjust.c: corrections, as rows of their own.
 *
 * For:       books_adjust(): one more row that names the one it corrects; nothing is ever edited.
 * Called by: gateway/cmd_adjust.c through books.h.
 * Knows not: who may correct, and why.
 *
 * A correction is an epoch of its own: a file of an open line, the adjust and a head, which appears
 * whole or not at all. A running gateway of the same name is not disturbed. So adjusts are found by
 * the second lines of files, whatever else the journal holds, and the lock under which epochs are
 * taken keeps two corrections of one row apart. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "config/base/log.h"
#include "meter/audit.h"
#include "meter/history.h"
#include "meter/row.h"
#include "meter/store.h"

#define TEXT_BYTES_MAX 512                       /* of by and of why: escaped they must fit a row */
#define NAME_BYTES_MAX 256                       /* of tenant, key, model */
#define FAR_US (INT64_C(253402300800) * 1000000) /* behind the year 9999 */

/* One correction under way. */
struct correction {
    const struct config *config;
    const struct books_adjust *ask;
    int64_t now_us;
    char *problem;
    size_t problem_size;
    struct store store;
    struct journal_file *files;
    size_t file_count;
    struct sign_key *key;
    struct history history;
    /* The row that is corrected, its texts as they are. */
    char tenant[NAME_BYTES_MAX], key_id[NAME_BYTES_MAX], model[NAME_BYTES_MAX];
    int64_t admitted_us;           /* the moment that the adjust counts in */
    int64_t corrects_us;           /* the row's, when its month is closed; else 0 */
    money_sum was_pusd, left_pusd; /* charged; and less what was taken back */
};

__attribute__((format(printf, 2, 3))) static enum err refuse(struct correction *correction,
                                                             const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(correction->problem, correction->problem_size, format, arguments);
    va_end(arguments);
    return ERR_BAD_VALUE;
}

/* ---- the row that is corrected ---- */

static const struct journal_file *file_of(const struct correction *correction, const char *gateway,
                                          uint64_t epoch, uint64_t seq)
{
    const struct journal_file *found = NULL;

    for (size_t i = 0; i < correction->file_count; i++) {
        const struct journal_file *file = &correction->files[i];
        if (strcmp(file->gateway, gateway) == 0 && file->epoch == epoch && file->first_seq <= seq)
            found = file;
    }
    return found;
}

static enum err take_row(struct correction *correction, const char *id, const struct record *record)
{
    if (record->kind != RECORD_CALL && record->kind != RECORD_ADJUST)
        return refuse(correction, "%s is not a row that charges anything", id);
    if (record->kind == RECORD_ADJUST && record->adjusts.size > 0)
        return refuse(correction, "%s is a correction itself: correct the row that it names", id);
    (void)record_text(record->tenant, correction->tenant, sizeof(correction->tenant));
    (void)record_text(record->key, correction->key_id, sizeof(correction->key_id));
    (void)record_text(record->model, correction->model, sizeof(correction->model));
    correction->admitted_us = record->admitted_us;
    correction->was_pusd = record->cost_pusd;
    correction->left_pusd = record->cost_pusd;
    return OK;
}

static enum err find_row(struct correction *correction, const char *id)
{
    char gateway[STORE_GATEWAY_BYTES_MAX + 1], problem[256];
    const struct journal_file *file = NULL;
    struct lines lines = {0};
    struct record record;
    struct span line;
    uint64_t epoch = 0, seq = 0;
    enum err err;

    if (audit_read_id(id, gateway, sizeof(gateway), &epoch, &seq))
        file = file_of(correction, gateway, epoch, seq);
    else
        return refuse(correction, "%s is not the id of a row: expected GATEWAY/EPOCH/SEQ", id);
    if (file == NULL || lines_open(correction->store.directory_fd, file->name, 0, &lines) != OK)
        return refuse(correction, "the journal has no row %s", id);
    err = refuse(correction, "the journal has no row %s", id);
    while (lines_next(&lines, &line) == LINE_WHOLE) {
        if (record_read(line, &record, problem, sizeof(problem)) == OK && record.seq == seq) {
            err = take_row(correction, id, &record);
            break;
        }
    }
    lines_close(&lines);
    return err;
}

/* Takes what a file's adjusts changed off what is left; a file without adjusts shows it in its
 * second line. */
static void take_adjusts(struct correction *correction, const struct journal_file *file,
                         const char *id)
{
    struct lines lines = {0};
    struct record record;
    struct span line;
    char adjusts[256], problem[256];

    if (lines_open(correction->store.directory_fd, file->name, 0, &lines) != OK)
        return;
    for (int number = 1; lines_next(&lines, &line) == LINE_WHOLE; number++) {
        if (number == 1)
            continue;
        if (record_read(line, &record, problem, sizeof(problem)) != OK ||
            record.kind != RECORD_ADJUST)
            break;
        (void)record_text(record.adjusts, adjusts, sizeof(adjusts));
        if (strcmp(adjusts, id) == 0)
            correction->left_pusd += record.cost_pusd;
    }
    lines_close(&lines);
}

/* ---- how much ---- */

static enum err decide_amount(struct correction *correction, int64_t *out_pusd)
{
    const struct books_adjust *ask = correction->ask;
    const money_sum left = correction->left_pusd;
    const money_sum add = ask->void_row ? -left : ask->add_pusd;
    char text[MONEY_TEXT_BYTES];

    if (ask->void_row && left == 0)
        return refuse(correction, "nothing is left to take back: %s",
                      correction->was_pusd == 0 ? "the row charged nothing"
                                                : "all that it charged was taken back before");
    if (add == 0)
        return refuse(correction, "a correction by 0 changes nothing");
    if (ask->adjusts.size > 0 && ((correction->was_pusd >= 0 && left + add < 0) ||
                                  (correction->was_pusd < 0 && left + add > 0))) {
        (void)money_print_usd(left, text);
        return refuse(correction, "more would be taken back than was charged: %s USD are left",
                      text);
    }
    if (add > INT64_MAX || add < INT64_MIN)
        return refuse(correction, "the amount does not fit a row");
    *out_pusd = (int64_t)add;
    return OK;
}

static enum err check_ask(struct correction *correction)
{
    const struct books_adjust *ask = correction->ask;

    if (ask->by.size == 0 || ask->by.size > TEXT_BYTES_MAX || ask->why.size == 0 ||
        ask->why.size > TEXT_BYTES_MAX)
        return refuse(correction, "expected who corrects, and why, in 1 to %d bytes each",
                      TEXT_BYTES_MAX);
    if (ask->adjusts.size == 0 && ask->void_row)
        return refuse(correction, "expected the row to take back");
    if (ask->adjusts.size == 0 &&
        (ask->tenant.size == 0 || ask->tenant.size >= sizeof(correction->tenant)))
        return refuse(correction, "expected a tenant");
    if (ask->adjusts.size == 0 && (ask->admitted_us < 0 || ask->admitted_us >= FAR_US))
        return refuse(correction, "expected a moment from 1970 to the year 9999");
    return OK;
}

/* Is the tenant's month of this moment over, and its grace? Its invoice may have been sent. */
static bool is_closed(const struct correction *correction, int64_t at_us)
{
    const struct zone *zone = config_zone_of(correction->config, span_of(correction->tenant));
    const struct period month = period_around(zone, PERIOD_MONTH, at_us);

    return correction->now_us >= invoice_closes_us(&month);
}

/* Where it counts: what comes to light about a closed month is for the invoice of this one. */
static enum err decide_month(struct correction *correction)
{
    const struct zone *zone = config_zone_of(correction->config, span_of(correction->tenant));

    if (correction->ask->amend)
        return OK;
    if (correction->admitted_us >= period_around(zone, PERIOD_MONTH, correction->now_us).until_us)
        return refuse(correction, "the month of that moment has not begun: name one of this month, "
                                  "or --amend that one");
    if (!is_closed(correction, correction->admitted_us))
        return OK;
    if (correction->ask->adjusts.size == 0)
        return refuse(correction, "the month of that moment is closed, its invoice may have been "
                                  "sent: name a moment of this month, or --amend the closed one");
    correction->corrects_us = correction->admitted_us;
    correction->admitted_us = correction->now_us;
    return OK;
}

static enum err decide(struct correction *correction, int64_t *out_pusd)
{
    const struct books_adjust *ask = correction->ask;
    char id[160];
    enum err err = OK;

    if (ask->adjusts.size == 0) {
        memcpy(correction->tenant, ask->tenant.data, ask->tenant.size);
        correction->admitted_us = ask->admitted_us;
        err = decide_month(correction);
        return err == OK ? decide_amount(correction, out_pusd) : err;
    }
    (void)snprintf(id, sizeof(id), "%.*s", (int)ask->adjusts.size, ask->adjusts.data);
    err = files_list(correction->store.directory_fd, &correction->files, &correction->file_count,
                     correction->problem, correction->problem_size);
    if (err == OK)
        err = find_row(correction, id);
    for (size_t i = 0; err == OK && i < correction->file_count; i++)
        take_adjusts(correction, &correction->files[i], id);
    if (err == OK)
        err = decide_month(correction);
    return err == OK ? decide_amount(correction, out_pusd) : err;
}

/* ---- writing ---- */

/* A file's lines, and what is known of the last of them. */
struct sheet {
    char *text;
    size_t bytes;
    struct row_link link;
    char hash[CHAIN_HASH_BYTES];
};

static void end_line(struct sheet *sheet, size_t bytes)
{
    line_hash((struct span){sheet->text + sheet->bytes, bytes - 1}, sheet->hash);
    sheet->bytes += bytes;
    sheet->link.seq++;
}

static enum err render(struct correction *correction, int64_t pusd, int64_t now_us,
                       struct sheet *sheet)
{
    const struct books_adjust *ask = correction->ask;
    const struct history *history = &correction->history;
    const struct row_adjust adjust = {.adjusts = ask->adjusts,
                                      .tenant = span_of(correction->tenant),
                                      .key = span_of(correction->key_id),
                                      .model = span_of(correction->model),
                                      .usage = {-1, -1, -1, -1, -1},
                                      .cost_pusd = pusd,
                                      .admitted_us = correction->admitted_us,
                                      .corrects_us = correction->corrects_us,
                                      .at_us = now_us,
                                      .by = ask->by,
                                      .why = ask->why};
    struct row_author author;
    size_t bytes = 0;
    enum err err;

    sheet->text = malloc(row_open_bytes_max(history->before_count, history->balance_count) +
                         2 * ROW_BYTES_MAX);
    if (sheet->text == NULL)
        return ERR_NO_MEMORY;
    row_author_init(&author, span_of(correction->store.gateway), correction->store.epoch);
    memset(sheet->hash, '0', sizeof(sheet->hash) - 1);
    sheet->link = (struct row_link){.seq = 1, .prev = sheet->hash};
    end_line(sheet,
             row_render_open(&author, &sheet->link, now_us, history->before, history->before_count,
                             history->balances, history->balance_count, sheet->text));
    end_line(sheet, row_render_adjust(&author, &sheet->link, &adjust, sheet->text + sheet->bytes));
    err = row_render_head(&author, &sheet->link, now_us, 1, correction->key,
                          sheet->text + sheet->bytes, &bytes);
    if (err == OK)
        end_line(sheet, bytes);
    return err;
}

static bool write_whole(int fd, const char *text, size_t bytes)
{
    size_t written = 0;

    while (written < bytes) {
        const ssize_t wrote = write(fd, text + written, bytes - written);
        if (wrote > 0)
            written += (size_t)wrote;
        else if (wrote == 0 || errno != EINTR)
            return false;
    }
    return fdatasync(fd) == 0;
}

/* Writes the file aside, then gives it its name: whoever reads the directory sees all of it, or
 * nothing. The start lock is held: what is there aside was left by one that was killed. */
static enum err publish(struct correction *correction, const struct sheet *sheet, const char *name)
{
    const int directory_fd = correction->store.directory_fd;
    char aside[NAME_MAX + 1];
    bool good = false;
    int fd;

    (void)snprintf(aside, sizeof(aside), ".%s.adjust", correction->store.gateway);
    fd = openat(directory_fd, aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd >= 0) {
        good = write_whole(fd, sheet->text, sheet->bytes);
        good = close(fd) == 0 && good;
        good = good && renameat(directory_fd, aside, directory_fd, name) == 0 &&
               fsync(directory_fd) == 0;
    }
    if (good)
        return OK;
    (void)snprintf(correction->problem, correction->problem_size, "writing %s in the journal: %s",
                   name, strerror(errno));
    (void)unlinkat(directory_fd, aside, 0);
    return ERR_INTERNAL;
}

/* The row is on disk: an anchor that cannot be told takes nothing back. */
static void tell_anchor(struct correction *correction, const struct sheet *sheet, const char *name,
                        int64_t now_us)
{
    struct row_before line = {.seq = sheet->link.seq - 1};
    char path[PATH_MAX], anchor[ROW_BYTES_MAX];
    size_t bytes = 0;
    int fd;

    if (correction->config->anchor_file.size == 0)
        return;
    (void)snprintf(line.file, sizeof(line.file), "%.*s", (int)sizeof(line.file) - 1, name);
    memcpy(line.sha256, sheet->hash, sizeof(line.sha256));
    (void)snprintf(path, sizeof(path), "%.*s", (int)correction->config->anchor_file.size,
                   correction->config->anchor_file.data);
    fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 ||
        row_render_anchor(span_of(correction->store.gateway), correction->store.epoch, &line,
                          now_us, correction->key, anchor, &bytes) != OK ||
        !write_whole(fd, anchor, bytes))
        log_event(LOG_WARN, "anchor_failed",
                  "%s: the correction was written, its anchor was not: %s", path, strerror(errno));
    if (fd >= 0)
        (void)close(fd);
}

static enum err open_key(struct correction *correction)
{
    char path[SIGN_PATH_BYTES];

    store_key_path(correction->config, path);
    return sign_key_open(path, false, &correction->key, correction->problem,
                         correction->problem_size);
}

static enum err write_adjust(struct correction *correction, int64_t pusd, int64_t now_us)
{
    struct sheet sheet = {.text = NULL};
    char name[NAME_MAX + 1];
    enum err err = open_key(correction);

    if (err == OK)
        err = history_read(correction->store.directory_fd, span_of(correction->store.gateway),
                           &correction->history, correction->problem, correction->problem_size);
    if (err == OK)
        err = render(correction, pusd, now_us, &sheet);
    if (err == OK) {
        store_journal_name(&correction->store, 1, name);
        err = publish(correction, &sheet, name);
    }
    if (err == OK)
        tell_anchor(correction, &sheet, name, now_us);
    free(sheet.text);
    return err;
}

static void describe(const struct correction *correction, int64_t pusd,
                     struct books_adjusted *out_adjusted)
{
    *out_adjusted =
        (struct books_adjusted){.pusd = pusd,
                                .counts_us = correction->admitted_us,
                                .corrects_us = correction->corrects_us,
                                .amends = is_closed(correction, correction->admitted_us)};
    (void)snprintf(out_adjusted->id, sizeof(out_adjusted->id), "%s/%" PRIu64 "/2",
                   correction->store.gateway, correction->store.epoch);
    (void)snprintf(out_adjusted->tenant, sizeof(out_adjusted->tenant), "%s", correction->tenant);
}

enum err books_adjust(struct books *books, const struct config *config,
                      const struct books_adjust *adjust, int64_t now_us,
                      struct books_adjusted *out_adjusted, char *problem, size_t problem_size)
{
    struct correction correction = {.config = config,
                                    .ask = adjust,
                                    .now_us = now_us,
                                    .problem = problem,
                                    .problem_size = problem_size};
    int64_t pusd = 0;
    enum err err = check_ask(&correction);

    if (err != OK)
        return err;
    err = store_open(&correction.store, config->journal, config->gateway, problem, problem_size);
    if (err != OK)
        return err;
    err = decide(&correction, &pusd);
    if (err == OK)
        err = write_adjust(&correction, pusd, now_us);
    if (err == OK)
        describe(&correction, pusd, out_adjusted);
    store_started(&correction.store);
    store_close(&correction.store);
    history_fini(&correction.history);
    sign_key_close(correction.key);
    free(correction.files);
    if (err == OK && books != NULL &&
        books_feed(books, INT64_MAX, NULL, problem, problem_size) != OK)
        log_event(LOG_WARN, "ledger_behind",
                  "the correction is in the journal, not in the ledger: %s", problem);
    if (err == ERR_NO_MEMORY)
        (void)snprintf(problem, problem_size, "no memory");
    return err;
}
