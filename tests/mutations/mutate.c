/* SPDX-License-Identifier: Apache-2.0 */
/* tests/mutations/mutate.c: a good journal spoilt in many ways, each of which an audit must find.
 *
 * For:       mutate JOURNAL ANCHORS PUBLIC_KEY COUNT SEED. Single bits are flipped, tails cut, rows
 *            swapped, deleted and doubled, files deleted, and amounts changed with all hashes made
 *            good again by one who has no key. Prints "N passed, N failed".
 * Called by: run.py.
 * Knows not: how the journal was made. It must be good, and an anchor must reach all of its rows.
 *
 * Lines that no anchor reaches (the head that a process writes last) are left as they are: they can
 * be cut off unseen. An anchor reaches the lines before it, and what open lines among them name.
 * The audit is handed files in a directory of its own; expected is one finding or more. */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "meter/books.h"
#include "meter/files.h"
#include "meter/record.h"

#define FILES_MAX 256
#define HASH_BYTES 64

struct text {
    char *data;
    size_t bytes;
};

/* A file of the journal as it was, and as the mutation at hand has it. */
struct sheet {
    char name[NAME_MAX + 1];
    uint64_t epoch, first_seq;
    uint64_t reached; /* the last seq of its epoch that an anchor reaches */
    struct text good, spoilt;
    size_t whole;  /* bytes up to the end of the last line that an anchor reaches */
    size_t *lines; /* where each begins, and where the last ends */
    size_t line_count;
    bool touched, gone; /* by the mutation at hand */
};

static struct sheet sheets[FILES_MAX];
static size_t sheet_count;
static char scratch[] = "/tmp/tollgate-mutations-XXXXXX";
static struct config config;
static struct audit_options options;
static uint64_t random_state;
static char what[512]; /* the mutation at hand, in words */

static void fail(const char *says)
{
    (void)fprintf(stderr, "mutate: %s\n", says);
    exit(2);
}

/* splitmix64: seeded, the same on every machine. */
static uint64_t next_random(uint64_t below)
{
    uint64_t mixed = random_state += UINT64_C(0x9e3779b97f4a7c15);

    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return (mixed ^ mixed >> 31) % below;
}

/* ---- files ---- */

static struct text read_file(const char *directory, const char *name)
{
    char path[PATH_MAX];
    struct text text = {NULL, 0};
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", directory, name);
    file = fopen(path, "r");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0)
        fail(path);
    text.bytes = (size_t)ftell(file);
    text.data = malloc(text.bytes + 1);
    rewind(file);
    if (text.data == NULL || fread(text.data, 1, text.bytes, file) != text.bytes)
        fail(path);
    (void)fclose(file);
    return text;
}

static void write_file(const char *name, const struct text *text)
{
    char path[PATH_MAX];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", scratch, name);
    file = fopen(path, "w");
    if (file == NULL || fwrite(text->data, 1, text->bytes, file) != text->bytes ||
        fclose(file) != 0)
        fail(path);
}

static void remove_file(const char *name)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof(path), "%s/%s", scratch, name);
    (void)unlink(path);
}

static void find_lines(struct sheet *sheet)
{
    size_t room = 16, at = 0;

    sheet->lines = malloc(room * sizeof(*sheet->lines));
    for (;;) {
        const char *end = memchr(sheet->good.data + at, '\n', sheet->good.bytes - at);
        if (sheet->lines == NULL)
            fail("no memory");
        sheet->lines[sheet->line_count] = at;
        if (end == NULL)
            break;
        at = (size_t)(end - sheet->good.data) + 1;
        if (++sheet->line_count == room)
            sheet->lines = realloc(sheet->lines, (room *= 2) * sizeof(*sheet->lines));
    }
}

static void load(const char *directory)
{
    const int fd = open(directory, O_RDONLY | O_DIRECTORY);
    struct journal_file *files = NULL;
    char problem[256];

    if (fd < 0 || files_list(fd, &files, &sheet_count, problem, sizeof(problem)) != OK)
        fail(directory);
    if (sheet_count == 0 || sheet_count > FILES_MAX)
        fail("expected 1 to 256 files in the journal");
    for (size_t i = 0; i < sheet_count; i++) {
        struct sheet *sheet = &sheets[i];
        (void)snprintf(sheet->name, sizeof(sheet->name), "%s", files[i].name);
        sheet->epoch = files[i].epoch;
        sheet->first_seq = files[i].first_seq;
        sheet->good = read_file(directory, sheet->name);
        find_lines(sheet);
        write_file(sheet->name, &sheet->good);
    }
    free(files);
    (void)close(fd);
}

/* ---- what is promised ---- */

/* What an anchor or an entry of before says of a line. */
struct named {
    char file[NAME_MAX + 1];
    int64_t seq;
    struct span hash;
};

static bool take_named(void *owner, struct span name, struct span value)
{
    struct named *named = owner;

    if (span_equal(name, SPAN("file")))
        (void)record_text(value, named->file, sizeof(named->file));
    else if (span_equal(name, SPAN("sha256")))
        named->hash = value;
    else if (span_equal(name, SPAN("seq")))
        return span_to_int64(value, &named->seq);
    return true;
}

/* A line that is reached protects those before it in its epoch. */
static bool reach(void *owner, struct span object)
{
    bool *changed = owner;
    struct named named = {.seq = 0};
    const struct sheet *found = NULL;

    if (!record_members(object, take_named, &named))
        fail("a line that names no other");
    for (size_t i = 0; i < sheet_count; i++) {
        if (strcmp(sheets[i].name, named.file) == 0)
            found = &sheets[i];
    }
    for (size_t i = 0; found != NULL && i < sheet_count; i++) {
        if (sheets[i].epoch == found->epoch && sheets[i].reached < (uint64_t)named.seq) {
            sheets[i].reached = (uint64_t)named.seq;
            *changed = true;
        }
    }
    return true;
}

static void reach_from_open(const struct sheet *sheet, bool *changed)
{
    struct record record;
    char problem[256];

    if (sheet->line_count == 0 || sheet->first_seq > sheet->reached)
        return;
    if (record_read((struct span){sheet->good.data, sheet->lines[1] - 1}, &record, problem,
                    sizeof(problem)) == OK)
        (void)record_items(record.before, reach, changed);
}

/* From here on files end where no anchor reaches. */
static void keep_to_what_is_promised(const char *anchors_path)
{
    struct lines anchors = {.data = NULL};
    struct span line;
    bool changed = false;

    if (lines_open(AT_FDCWD, anchors_path, 0, &anchors) != OK)
        fail(anchors_path);
    while (lines_next(&anchors, &line) == LINE_WHOLE)
        (void)reach(&changed, line);
    lines_close(&anchors);
    do {
        changed = false;
        for (size_t i = 0; i < sheet_count; i++)
            reach_from_open(&sheets[i], &changed);
    } while (changed);
    for (size_t i = 0; i < sheet_count; i++) {
        struct sheet *sheet = &sheets[i];
        while (sheet->line_count > 0 && sheet->first_seq + sheet->line_count - 1 > sheet->reached)
            sheet->line_count--;
        sheet->whole = sheet->lines[sheet->line_count];
    }
}

/* ---- spoiling ---- */

/* The file's bytes, to be changed; with room for more. */
static struct text *touch(struct sheet *sheet, size_t more)
{
    if (!sheet->touched) {
        sheet->touched = true;
        sheet->spoilt.bytes = sheet->good.bytes;
        sheet->spoilt.data = malloc(sheet->good.bytes + more + 1);
        if (sheet->spoilt.data == NULL)
            fail("no memory");
        memcpy(sheet->spoilt.data, sheet->good.data, sheet->good.bytes);
    }
    return &sheet->spoilt;
}

/* A file, the more often the longer it is. */
static struct sheet *pick_by_bytes(size_t *out_at)
{
    uint64_t bytes = 0, at;

    for (size_t i = 0; i < sheet_count; i++)
        bytes += sheets[i].whole;
    at = next_random(bytes);
    for (size_t i = 0; i < sheet_count; i++) {
        if (at < sheets[i].whole) {
            *out_at = (size_t)at;
            return &sheets[i];
        }
        at -= sheets[i].whole;
    }
    return NULL;
}

/* A file with at least so many lines. */
static struct sheet *pick_with_lines(size_t lines)
{
    for (;;) {
        struct sheet *sheet = &sheets[next_random(sheet_count)];
        if (sheet->line_count >= lines)
            return sheet;
    }
}

static void flip_bit(void)
{
    size_t at = 0;
    struct sheet *sheet = pick_by_bytes(&at);
    const int bit = (int)next_random(8);

    touch(sheet, 0)->data[at] = (char)(sheet->good.data[at] ^ (1 << bit));
    (void)snprintf(what, sizeof(what), "bit %d of byte %zu of %s flipped", bit, at, sheet->name);
}

static void cut_tail(void)
{
    size_t at = 0;
    struct sheet *sheet = pick_by_bytes(&at);

    touch(sheet, 0)->bytes = at;
    (void)snprintf(what, sizeof(what), "%s cut at byte %zu of %zu", sheet->name, at, sheet->whole);
}

/* Puts pieces of the good text in the place of it. */
static void lay(struct sheet *sheet, const size_t (*pieces)[2], size_t count)
{
    struct text *text = touch(sheet, sheet->good.bytes);

    text->bytes = 0;
    for (size_t i = 0; i < count; i++) {
        memcpy(text->data + text->bytes, sheet->good.data + pieces[i][0],
               pieces[i][1] - pieces[i][0]);
        text->bytes += pieces[i][1] - pieces[i][0];
    }
}

static void swap_rows(void)
{
    struct sheet *sheet = pick_with_lines(2);
    const size_t *lines = sheet->lines;
    const size_t first = next_random(sheet->line_count - 1);
    const size_t second = first + 1 + next_random(sheet->line_count - first - 1);
    const size_t pieces[][2] = {{0, lines[first]},
                                {lines[second], lines[second + 1]},
                                {lines[first + 1], lines[second]},
                                {lines[first], lines[first + 1]},
                                {lines[second + 1], sheet->good.bytes}};

    lay(sheet, pieces, 5);
    (void)snprintf(what, sizeof(what), "lines %zu and %zu of %s swapped", first + 1, second + 1,
                   sheet->name);
}

static void delete_rows(void)
{
    struct sheet *sheet = pick_with_lines(1);
    const size_t first = next_random(sheet->line_count);
    const size_t left = sheet->line_count - first;
    const size_t count = 1 + next_random(left < 3 ? left : 3);
    const size_t pieces[][2] = {{0, sheet->lines[first]},
                                {sheet->lines[first + count], sheet->good.bytes}};

    lay(sheet, pieces, 2);
    (void)snprintf(what, sizeof(what), "%zu lines from %zu on of %s deleted", count, first + 1,
                   sheet->name);
}

static void double_row(void)
{
    struct sheet *sheet = pick_with_lines(1);
    const size_t *lines = sheet->lines;
    const size_t row = next_random(sheet->line_count);
    const size_t place = next_random(sheet->line_count + 1);
    const size_t pieces[][2] = {
        {0, lines[place]}, {lines[row], lines[row + 1]}, {lines[place], sheet->good.bytes}};

    lay(sheet, pieces, 3);
    (void)snprintf(what, sizeof(what), "line %zu of %s once more before line %zu", row + 1,
                   sheet->name, place + 1);
}

static void delete_file(void)
{
    struct sheet *sheet = pick_with_lines(1);

    sheet->gone = true;
    (void)snprintf(what, sizeof(what), "%s deleted", sheet->name);
}

/* ---- an amount changed, and every hash made good again ---- */

/* A line of the spoilt text, by its number; where it begins and ends (without its newline). */
static bool find_line(const struct text *text, size_t number, size_t *out_at, size_t *out_end)
{
    size_t at = 0;

    for (;; number--) {
        const char *end = at < text->bytes ? memchr(text->data + at, '\n', text->bytes - at) : NULL;
        if (end == NULL)
            return false;
        *out_at = at;
        *out_end = (size_t)(end - text->data);
        if (number == 0)
            return true;
        at = *out_end + 1;
    }
}

/* The hash of the line with this seq as it is now; false: no such file or line. */
static bool hash_now(const char *file, uint64_t seq, char out[HASH_BYTES + 1])
{
    for (size_t i = 0; i < sheet_count; i++) {
        struct journal_file parsed;
        const struct text *text = touch(&sheets[i], HASH_BYTES);
        size_t at, end;
        if (strcmp(sheets[i].name, file) != 0 || !files_parse_name(file, &parsed) ||
            !find_line(text, seq - parsed.first_seq, &at, &end))
            continue;
        line_hash((struct span){text->data + at, end - at}, out);
        return true;
    }
    return false;
}

/* An entry of before says what its line's hash is now. */
static bool mend_before(void *owner, struct span object)
{
    bool *changed = owner;
    struct named named = {.seq = 0};
    char hash[HASH_BYTES + 1];

    if (record_members(object, take_named, &named) && named.hash.size == HASH_BYTES &&
        hash_now(named.file, (uint64_t)named.seq, hash) &&
        memcmp(named.hash.data, hash, HASH_BYTES) != 0) {
        memcpy((char *)(uintptr_t)named.hash.data, hash, HASH_BYTES);
        *changed = true;
    }
    return true;
}

/* Every prev and before of an epoch's file goes by the lines as they are now. hash: of the line
 * before, and then of the last. */
static bool mend_file(struct sheet *sheet, char hash[HASH_BYTES + 1])
{
    struct text *text = touch(sheet, HASH_BYTES);
    struct record record;
    char problem[256];
    size_t at, end;
    bool changed = false;

    for (size_t number = 0; find_line(text, number, &at, &end); number++) {
        const struct span line = {text->data + at, end - at};
        if (record_read(line, &record, problem, sizeof(problem)) != OK)
            fail(problem);
        if (record.kind == RECORD_OPEN)
            (void)record_items(record.before, mend_before, &changed);
        if (memcmp(record.prev.data, hash, HASH_BYTES) != 0) {
            memcpy((char *)(uintptr_t)record.prev.data, hash, HASH_BYTES);
            changed = true;
        }
        line_hash(line, hash);
    }
    return changed;
}

static void mend_all(void)
{
    bool changed;

    do { /* epochs that overlap name each other's lines */
        char hash[HASH_BYTES + 1];
        changed = false;
        for (size_t i = 0; i < sheet_count; i++) {
            if (i == 0 || sheets[i].epoch != sheets[i - 1].epoch)
                memset(hash, '0', HASH_BYTES);
            changed = mend_file(&sheets[i], hash) || changed;
        }
    } while (changed);
}

/* Puts a text in the place of another within a line; false: the line has no such text. */
static bool replace(struct sheet *sheet, size_t number, const char *old, const char *new)
{
    struct text *text = touch(sheet, HASH_BYTES);
    const size_t old_size = strlen(old), new_size = strlen(new);
    size_t at, end;
    char *place;

    if (!find_line(text, number, &at, &end) || new_size > old_size + HASH_BYTES)
        return false;
    place = memmem(text->data + at, end - at, old, old_size);
    if (place == NULL)
        return false;
    memmove(place + new_size, place + old_size,
            text->bytes - (size_t)(place - text->data) - old_size);
    memcpy(place, new, new_size);
    text->bytes = text->bytes + new_size - old_size;
    return true;
}

static void change_amount(void)
{
    for (;;) {
        struct sheet *sheet = pick_with_lines(1);
        const size_t number = next_random(sheet->line_count);
        const struct span line = {sheet->good.data + sheet->lines[number],
                                  sheet->lines[number + 1] - sheet->lines[number] - 1};
        const bool free_of_charge = next_random(2) == 0;
        struct record record;
        char problem[256], old[64], new[64];
        if (record_read(line, &record, problem, sizeof(problem)) != OK ||
            record.kind != RECORD_CALL || record.cost_pusd <= 0)
            continue;
        (void)snprintf(old, sizeof(old), "\"cost_pusd\":\"%" PRId64 "\"", record.cost_pusd);
        (void)snprintf(new, sizeof(new), "\"cost_pusd\":\"%" PRId64 "\"",
                       free_of_charge ? 0 : record.cost_pusd + 1 + (int64_t)next_random(1000));
        if (!replace(sheet, number, old, new) ||
            (free_of_charge && !replace(sheet, number, "\"billable\":true", "\"billable\":false")))
            fail("a row without its amount");
        mend_all();
        (void)snprintf(what, sizeof(what), "line %zu of %s: %s became %s, hashes recomputed",
                       number + 1, sheet->name, old, new);
        return;
    }
}

/* ---- each of them audited ---- */

static void print_finding(void *owner, const struct audit_finding *finding)
{
    if (owner != NULL && finding->kind != AUDIT_NOTE)
        (void)printf("%s seq %" PRIu64 ": %s\n", finding->file == NULL ? "" : finding->file,
                     finding->seq, finding->says);
}

static struct audit_sums audit(bool print)
{
    struct audit_sums sums;
    char problem[512];

    if (books_audit(NULL, &config, &options, print_finding, print ? &sums : NULL, &sums, problem,
                    sizeof(problem)) != OK)
        fail(problem);
    return sums;
}

static void put_in_place(void)
{
    for (size_t i = 0; i < sheet_count; i++) {
        if (sheets[i].gone)
            remove_file(sheets[i].name);
        else if (sheets[i].touched)
            write_file(sheets[i].name, &sheets[i].spoilt);
    }
}

/* Is the directory as it was, since the mutation changed nothing? */
static bool is_same(void)
{
    for (size_t i = 0; i < sheet_count; i++) {
        const struct sheet *sheet = &sheets[i];
        if (sheet->gone || (sheet->touched &&
                            (sheet->spoilt.bytes != sheet->good.bytes ||
                             memcmp(sheet->spoilt.data, sheet->good.data, sheet->good.bytes) != 0)))
            return false;
    }
    return true;
}

static void restore(void)
{
    for (size_t i = 0; i < sheet_count; i++) {
        if (sheets[i].gone || sheets[i].touched)
            write_file(sheets[i].name, &sheets[i].good);
        free(sheets[i].spoilt.data);
        sheets[i].spoilt = (struct text){NULL, 0};
        sheets[i].touched = sheets[i].gone = false;
    }
}

static const struct {
    const char *name;
    void (*spoil)(void);
    unsigned share; /* of 20 */
} kinds[] = {
    {"bits flipped", flip_bit, 8},         {"tails cut", cut_tail, 4},
    {"rows swapped", swap_rows, 2},        {"rows deleted", delete_rows, 2},
    {"rows doubled", double_row, 2},       {"files deleted", delete_file, 1},
    {"amounts changed", change_amount, 1},
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static size_t pick_kind(uint64_t number)
{
    unsigned place = (unsigned)(number % 20);
    size_t kind = 0;

    while (place >= kinds[kind].share)
        place -= kinds[kind++].share;
    return kind;
}

static int run(uint64_t count)
{
    uint64_t passed = 0, failed = 0, done[KINDS] = {0};

    for (uint64_t i = 0; i < count; i++) {
        const size_t kind = pick_kind(i);
        do {
            restore();
            kinds[kind].spoil();
        } while (is_same());
        put_in_place();
        done[kind]++;
        if (audit(false).findings > 0) {
            passed++;
        } else {
            failed++;
            (void)printf("NOT FOUND: %s\n", what);
        }
    }
    restore();
    for (size_t kind = 0; kind < KINDS; kind++)
        (void)printf("%s: %" PRIu64 "\n", kinds[kind].name, done[kind]);
    if (audit(true).findings > 0)
        fail("the journal was not good any more at the end");
    (void)printf("%" PRIu64 " passed, %" PRIu64 " failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}

static void tidy(void)
{
    for (size_t i = 0; i < sheet_count; i++) {
        remove_file(sheets[i].name);
        free(sheets[i].good.data);
        free(sheets[i].lines);
    }
    (void)rmdir(scratch);
}

int main(int argc, char **argv)
{
    struct audit_sums sums;
    int status;

    if (argc != 6 || mkdtemp(scratch) == NULL)
        fail("usage: mutate JOURNAL ANCHORS PUBLIC_KEY COUNT SEED");
    (void)atexit(tidy);
    load(argv[1]);
    keep_to_what_is_promised(argv[2]);
    config.journal = span_of(scratch);
    options.anchors = argv[2];
    options.public_keys[0] = argv[3];
    random_state = strtoull(argv[5], NULL, 10);
    sums = audit(true);
    if (sums.findings > 0)
        fail("the journal is not good before anything was changed");
    if (sums.rows_after_last_anchor > 0 || sums.calls == 0)
        fail("expected rows, and an anchor that reaches all of them");
    (void)printf("a journal of %" PRIu64 " files, %" PRIu64 " lines, %" PRIu64 " calls, %" PRIu64
                 " adjusts, %" PRIu64 " heads, %" PRIu64 " anchors; seed %s\n",
                 sums.files, sums.lines, sums.calls, sums.adjusts, sums.heads, sums.anchors,
                 argv[5]);
    status = run(strtoull(argv[4], NULL, 10));
    return status;
}
