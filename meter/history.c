/* SPDX-License-Identifier: Apache-2.0 */
/* meter/history.c: what a new file of the journal says of those before it.
 *
 * For:       history.h.
 * Called by: meter.c at the start; scribe.c for each row and each new file.
 * Knows not: threads, slots.
 *
 * A balance is the sum over the rows of this gateway's epochs, each up to the line of it that
 * `before` names. So what an open line says, and the rows behind it and behind the lines that it
 * names, are all there is: an epoch that it does not name had ended, and is counted in it. That is
 * why an epoch whose table is still there stays named, written or not: it may write again. */
#include "meter/history.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "meter/files.h"
#include "meter/record.h"
#include "meter/skim.h"

#define FILE_CLOCK_US 1000000 /* files are stamped by a clock that goes in steps */
#define TENANT_BYTES_MAX 128u /* what row_open_bytes_max() counts on */

/* ---- balances ---- */

/* Where this tenant's balance is, or would be. */
static size_t place_of(const struct history *history, struct span tenant, bool *out_found)
{
    size_t low = 0, high = history->balance_count;

    *out_found = false;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = span_compare(history->balances[middle].tenant, tenant);
        if (order == 0) {
            *out_found = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static enum err make_room(struct history *history)
{
    const size_t room = history->balance_room > 0 ? 2 * history->balance_room : 16;
    struct row_balance *balances;

    if (history->balance_count < history->balance_room)
        return OK;
    balances = realloc(history->balances, room * sizeof(*balances));
    if (!balances)
        return ERR_NO_MEMORY;
    history->balances = balances;
    history->balance_room = room;
    return OK;
}

static enum err add_balance(struct history *history, struct span tenant, money_sum posted_pusd,
                            uint64_t rows)
{
    bool found;
    const size_t at = place_of(history, tenant, &found);
    struct row_balance *balance;
    char *text;

    if (found) {
        balance = &history->balances[at];
        balance->rows += rows;
        return money_add(balance->posted_pusd, posted_pusd, &balance->posted_pusd);
    }
    if (tenant.size > TENANT_BYTES_MAX)
        return ERR_BAD_VALUE;
    text = malloc(tenant.size + 1);
    if (!text || make_room(history) != OK) {
        free(text);
        return ERR_NO_MEMORY;
    }
    if (tenant.size > 0)
        memcpy(text, tenant.data, tenant.size);
    text[tenant.size] = '\0';
    balance = &history->balances[at];
    memmove(balance + 1, balance, (history->balance_count - at) * sizeof(*balance));
    *balance = (struct row_balance){{text, tenant.size}, posted_pusd, rows};
    history->balance_count++;
    return OK;
}

enum err history_post(struct history *history, struct span tenant, int64_t cost_pusd)
{
    return add_balance(history, tenant, cost_pusd, 1);
}

void history_fini(struct history *history)
{
    for (size_t i = 0; i < history->balance_count; i++)
        free((void *)(uintptr_t)history->balances[i].tenant.data);
    free(history->balances);
    free(history->before);
    *history = (struct history){.before = NULL};
}

/* ---- reading ---- */

/* One reading of a directory. */
struct reading {
    int directory_fd;
    struct span gateway;
    struct journal_file *files;
    size_t file_count;
    struct history *history;
    /* This gateway's newest open line, if it has one. */
    bool has_open;
    size_t open_file; /* in files */
    size_t open_end;  /* where the line behind it begins */
    int64_t open_at_us;
    struct row_before open;   /* the line itself */
    struct row_before *named; /* by it */
    size_t named_count;
    char *problem;
    size_t problem_size;
    enum err err; /* of a visitor */
};

/* What is wrong with the line at an offset, in words. */
static enum err say_damage(struct reading *reading, const char *file, size_t at, const char *what)
{
    (void)snprintf(reading->problem, reading->problem_size, "%s, byte %zu: %s", file, at, what);
    return ERR_BAD_VALUE;
}

static enum err open_lines(struct reading *reading, const char *file, size_t at,
                           struct lines *out_lines)
{
    const enum err err = lines_open(reading->directory_fd, file, at, out_lines);

    if (err != OK)
        (void)snprintf(reading->problem, reading->problem_size, "%s: %s", file, strerror(errno));
    return err;
}

static void name_line(struct row_before *before, const char *file, uint64_t seq, struct span line)
{
    *before = (struct row_before){.seq = seq};
    (void)snprintf(before->file, sizeof(before->file), "%.*s", (int)sizeof(before->file) - 1, file);
    line_hash(line, before->sha256);
}

/* The next line that is a row; false at the end, or at a torn one, or with an error. A line that is
 * none is damage when a whole one stands behind it, and a torn end else. */
static bool next_row(struct reading *reading, const char *file, struct lines *lines,
                     struct span *out_line, struct record *out_record, enum err *out_err)
{
    const size_t at = lines->at;
    char what[256];
    struct span behind;

    *out_err = OK;
    if (lines_next(lines, out_line) != LINE_WHOLE)
        return false;
    if (record_read(*out_line, out_record, what, sizeof(what)) == OK)
        return true;
    if (lines_next(lines, &behind) == LINE_WHOLE)
        *out_err = say_damage(reading, file, at, what);
    return false;
}

/* ---- the newest open line ---- */

struct before_item {
    struct row_before *before;
    bool good;
};

static bool read_before_member(void *owner, struct span name, struct span value)
{
    struct before_item *item = owner;
    int64_t seq;

    if (span_equal(name, SPAN("file"))) {
        (void)record_text(value, item->before->file, sizeof(item->before->file));
    } else if (span_equal(name, SPAN("sha256"))) {
        (void)record_text(value, item->before->sha256, sizeof(item->before->sha256));
    } else if (span_equal(name, SPAN("seq"))) {
        item->good = span_to_int64(value, &seq);
        item->before->seq = item->good ? (uint64_t)seq : 0;
    }
    return true;
}

static bool read_before(void *owner, struct span text)
{
    struct reading *reading = owner;
    struct row_before *more = realloc(reading->named, (reading->named_count + 1) * sizeof(*more));
    struct before_item item = {.good = false};

    if (!more) {
        reading->err = ERR_NO_MEMORY;
        return false;
    }
    reading->named = more;
    item.before = &more[reading->named_count];
    *item.before = (struct row_before){.seq = 0};
    if (!record_members(text, read_before_member, &item) || !item.good) {
        reading->err = ERR_BAD_VALUE;
        return false;
    }
    reading->named_count++;
    return true;
}

struct balance_item {
    char tenant[TENANT_BYTES_MAX + 1];
    size_t tenant_bytes;
    money_sum posted_pusd;
    int64_t rows;
    bool has_money, has_rows;
};

static bool read_balance_member(void *owner, struct span name, struct span value)
{
    struct balance_item *item = owner;

    if (span_equal(name, SPAN("tenant")))
        item->tenant_bytes = record_text(value, item->tenant, sizeof(item->tenant));
    else if (span_equal(name, SPAN("posted_pusd")))
        item->has_money = money_read_pusd(value, &item->posted_pusd) == OK;
    else if (span_equal(name, SPAN("rows")))
        item->has_rows = span_to_int64(value, &item->rows);
    return true;
}

static bool read_balance(void *owner, struct span text)
{
    struct reading *reading = owner;
    struct balance_item item = {.has_money = false};

    if (!record_members(text, read_balance_member, &item) || !item.has_money || !item.has_rows)
        reading->err = ERR_BAD_VALUE;
    else
        reading->err = add_balance(reading->history, (struct span){item.tenant, item.tenant_bytes},
                                   item.posted_pusd, (uint64_t)item.rows);
    return reading->err == OK;
}

/* Takes over what an open line says. */
static enum err take_open(struct reading *reading, const char *file, struct span line,
                          const struct record *record)
{
    reading->err = OK;
    if ((!record_items(record->before, read_before, reading) ||
         !record_items(record->balances, read_balance, reading)) &&
        reading->err == OK)
        reading->err = ERR_BAD_VALUE;
    if (reading->err == ERR_BAD_VALUE)
        return say_damage(reading, file, 0, "an open line whose before or balances do not read");
    name_line(&reading->open, file, record->seq, line);
    reading->open_at_us = record->at_us;
    reading->has_open = true;
    return reading->err;
}

/* Looks at the first line of a file; reading->has_open says whether it was one. */
static enum err try_open(struct reading *reading, size_t index)
{
    const char *file = reading->files[index].name;
    struct record record;
    struct lines lines;
    struct span line;
    enum err err = open_lines(reading, file, 0, &lines);

    if (err != OK)
        return err;
    if (next_row(reading, file, &lines, &line, &record, &err) && record.kind == RECORD_OPEN) {
        err = take_open(reading, file, line, &record);
        reading->open_file = index;
        reading->open_end = lines.at;
    }
    lines_close(&lines);
    return err;
}

static bool is_own(const struct reading *reading, size_t index)
{
    return span_equal(span_of(reading->files[index].gateway), reading->gateway);
}

static enum err find_open(struct reading *reading)
{
    enum err err = OK;

    for (size_t i = reading->file_count; i-- > 0 && err == OK && !reading->has_open;) {
        if (is_own(reading, i))
            err = try_open(reading, i);
    }
    return err;
}

/* ---- the rows behind ---- */

/* The files of one epoch, which lie together. */
struct epoch_files {
    size_t first, end;
};

static bool are_one_epoch(const struct journal_file *a, const struct journal_file *b)
{
    return a->epoch == b->epoch && strcmp(a->gateway, b->gateway) == 0;
}

/* The epoch whose last file lies before end (> 0). */
static struct epoch_files epoch_before(const struct reading *reading, size_t end)
{
    struct epoch_files epoch = {end - 1, end};

    while (epoch.first > 0 &&
           are_one_epoch(&reading->files[epoch.first - 1], &reading->files[end - 1]))
        epoch.first--;
    return epoch;
}

/* From where on an epoch of this gateway is not counted yet. */
struct uncounted {
    size_t file; /* in files */
    size_t at;
    uint64_t behind_seq;
    struct row_before last; /* the line that was counted last; seq 0: none */
    bool is_open;           /* and that is the open line */
};

static const struct row_before *find_named(const struct reading *reading,
                                           const struct epoch_files *epoch)
{
    for (size_t i = 0; i < reading->named_count; i++) {
        struct journal_file file;
        if (files_parse_name(reading->named[i].file, &file) &&
            file.epoch == reading->files[epoch->first].epoch &&
            span_equal(span_of(file.gateway), reading->gateway))
            return &reading->named[i];
    }
    return NULL;
}

/* false: all of it is counted. */
static bool find_uncounted(const struct reading *reading, const struct epoch_files *epoch,
                           struct uncounted *out)
{
    const struct row_before *named = find_named(reading, epoch);
    struct journal_file file;

    *out = (struct uncounted){.file = epoch->first};
    if (!reading->has_open)
        return true;
    if (reading->open_file >= epoch->first && reading->open_file < epoch->end) {
        out->file = reading->open_file;
        out->at = reading->open_end;
        out->behind_seq = reading->open.seq;
        out->last = reading->open;
        out->is_open = true;
        return true;
    }
    if (!named) /* younger than the open line: it never came to one of its own */
        return reading->files[epoch->first].epoch > reading->files[reading->open_file].epoch;
    out->behind_seq = named->seq;
    out->last = *named;
    if (files_parse_name(named->file, &file)) {
        while (out->file + 1 < epoch->end &&
               reading->files[out->file + 1].first_seq <= file.first_seq)
            out->file++;
    }
    return true;
}

/* seq of a line, if it begins as ours do; 0: let record_read() say. Nothing but numbers and the
 * gateway's name stands before it, in which quotes are escaped. */
static uint64_t quick_seq(struct span line)
{
    static const char field[] = ",\"seq\":";
    const char *at = memmem(line.data, line.size, field, sizeof(field) - 1);
    struct span digits;
    int64_t seq;

    if (!at)
        return 0;
    digits = (struct span){at + sizeof(field) - 1, 0};
    while (digits.data + digits.size < line.data + line.size && digits.data[digits.size] >= '0' &&
           digits.data[digits.size] <= '9')
        digits.size++;
    return span_to_int64(digits, &seq) ? (uint64_t)seq : 0;
}

/* Moves over lines that were counted. */
static void skip_counted(struct lines *lines, uint64_t behind_seq)
{
    size_t at = lines->at;
    struct span line;

    while (lines_next(lines, &line) == LINE_WHOLE) {
        const uint64_t seq = quick_seq(line);
        if (seq == 0 || seq > behind_seq)
            break;
        at = lines->at;
    }
    lines->at = at;
}

static enum err post_row(struct history *history, const struct record *record)
{
    char tenant[TENANT_BYTES_MAX + 1];
    size_t bytes;

    if (record->kind != RECORD_CALL && record->kind != RECORD_ADJUST)
        return OK;
    bytes = record_text(record->tenant, tenant, sizeof(tenant));
    return history_post(history, (struct span){tenant, bytes}, record->cost_pusd);
}

/* Posts plain charges as far as they come; *last_line and *last_seq: the last of them. */
static enum err post_plain_rows(struct history *history, struct lines *lines, uint64_t behind_seq,
                                struct span *last_line, uint64_t *last_seq)
{
    size_t at = lines->at;
    enum err err = OK;
    struct skimmed row;
    struct span line;

    while (err == OK && lines_next(lines, &line) == LINE_WHOLE && skim_row(line, &row) &&
           (uint64_t)row.seq > behind_seq &&
           (span_equal(row.kind, SPAN("call")) || span_equal(row.kind, SPAN("adjust")))) {
        err = history_post(history, row.tenant, row.cost_pusd);
        if (err != OK)
            break;
        *last_line = line;
        *last_seq = (uint64_t)row.seq;
        at = lines->at;
    }
    lines->at = at;
    return err == ERR_BAD_VALUE ? OK : err; /* said with its place when it is read again */
}

/* Posts what a file has behind a line. *last: the last line, when there was one. */
static enum err count_file(struct reading *reading, const char *file, size_t at,
                           uint64_t behind_seq, struct row_before *last)
{
    struct span line, last_line = {NULL, 0};
    uint64_t last_seq = 0;
    struct record record;
    struct lines lines;
    enum err err = open_lines(reading, file, at, &lines);

    if (err != OK)
        return err;
    skip_counted(&lines, behind_seq);
    err = post_plain_rows(reading->history, &lines, behind_seq, &last_line, &last_seq);
    while (err == OK && next_row(reading, file, &lines, &line, &record, &err)) {
        if (record.seq <= behind_seq)
            continue;
        err = post_row(reading->history, &record);
        if (err == ERR_BAD_VALUE)
            err = say_damage(reading, file, (size_t)(line.data - lines.data),
                             "the tenant's balance does not fit");
        if (err != OK)
            break;
        last_line = line;
        last_seq = record.seq;
        err = post_plain_rows(reading->history, &lines, behind_seq, &last_line, &last_seq);
    }
    if (last_line.data)
        name_line(last, file, last_seq, last_line);
    lines_close(&lines);
    return err;
}

/* A process that still holds its table may write again. */
static bool has_table(const struct reading *reading, uint64_t epoch)
{
    char name[NAME_MAX + 1];

    files_print_table_name(reading->gateway, epoch, name);
    return faccessat(reading->directory_fd, name, F_OK, 0) == 0;
}

static void add_before(struct history *history, const struct row_before *line)
{
    if (history->before_count < HISTORY_BEFORE_MAX)
        history->before[history->before_count++] = *line;
}

static enum err count_epoch(struct reading *reading, const struct epoch_files *epoch)
{
    struct uncounted from;
    struct row_before last;
    enum err err = OK;

    if (!find_uncounted(reading, epoch, &from))
        return OK;
    last = from.last;
    for (size_t i = from.file; i < epoch->end && err == OK; i++)
        err = count_file(reading, reading->files[i].name, i == from.file ? from.at : 0,
                         from.behind_seq, &last);
    if (err == OK && last.seq > 0 &&
        (last.seq != from.last.seq || from.is_open ||
         has_table(reading, reading->files[epoch->first].epoch)))
        add_before(reading->history, &last);
    return err;
}

/* Newest first, so that the youngest are named when there are too many. */
static enum err count_own(struct reading *reading)
{
    enum err err = OK;

    for (size_t end = reading->file_count; end > 0 && err == OK;) {
        const struct epoch_files epoch = epoch_before(reading, end);
        if (is_own(reading, epoch.first))
            err = count_epoch(reading, &epoch);
        end = epoch.first;
    }
    return err;
}

/* ---- other gateways ---- */

/* The last line of a file that is a row; false: it has none. */
static bool find_last_line(struct reading *reading, const char *file, struct row_before *out_line)
{
    char what[256];
    struct record record;
    struct lines lines;
    bool found = false;
    size_t end;

    if (lines_open(reading->directory_fd, file, 0, &lines) != OK)
        return false; /* it has been removed */
    for (end = lines.bytes; !found && end > 0;) {
        const char *newline = memrchr(lines.data, '\n', end);
        const char *before;
        struct span line;
        if (!newline)
            break;
        before = memrchr(lines.data, '\n', (size_t)(newline - lines.data));
        line.data = before ? before + 1 : lines.data;
        line.size = (size_t)(newline - line.data);
        found = record_read(line, &record, what, sizeof(what)) == OK;
        if (found)
            name_line(out_line, file, record.seq, line);
        end = (size_t)(newline - lines.data);
    }
    lines_close(&lines);
    return found;
}

static int compare_ages(const void *left, const void *right)
{
    const struct journal_file *const *a = left;
    const struct journal_file *const *b = right;

    if ((*a)->modified_us == (*b)->modified_us)
        return 0;
    return (*a)->modified_us > (*b)->modified_us ? -1 : 1;
}

/* The newest file of each epoch of others that has been written since the open line, newest first.
 */
static enum err name_others(struct reading *reading)
{
    const struct journal_file **newest =
        calloc(reading->file_count + 1, sizeof(struct journal_file *));
    size_t count = 0;

    if (!newest)
        return ERR_NO_MEMORY;
    for (size_t end = reading->file_count; end > 0;) {
        const struct epoch_files epoch = epoch_before(reading, end);
        const struct journal_file *file = &reading->files[end - 1];
        if (!is_own(reading, epoch.first) &&
            (!reading->has_open || file->modified_us >= reading->open_at_us - FILE_CLOCK_US))
            newest[count++] = file;
        end = epoch.first;
    }
    qsort(newest, count, sizeof(struct journal_file *), compare_ages);
    for (size_t i = 0; i < count && reading->history->before_count < HISTORY_BEFORE_MAX; i++) {
        struct row_before line;
        if (find_last_line(reading, newest[i]->name, &line))
            add_before(reading->history, &line);
    }
    free(newest);
    return OK;
}

enum err history_read(int directory_fd, struct span gateway, struct history *out_history,
                      char *problem, size_t problem_size)
{
    struct history history = {.before = calloc(HISTORY_BEFORE_MAX, sizeof(*history.before))};
    struct reading reading = {
        .directory_fd = directory_fd,
        .gateway = gateway,
        .history = &history,
        .problem = problem,
        .problem_size = problem_size,
    };
    enum err err = history.before ? OK : ERR_NO_MEMORY;

    (void)snprintf(problem, problem_size, "no memory");
    if (err == OK)
        err = files_list(directory_fd, &reading.files, &reading.file_count, problem, problem_size);
    if (err == OK)
        err = find_open(&reading);
    if (err == OK)
        err = count_own(&reading);
    if (err == OK)
        err = name_others(&reading);
    free(reading.files);
    free(reading.named);
    if (err != OK) {
        history_fini(&history);
        return err;
    }
    *out_history = history;
    return OK;
}
