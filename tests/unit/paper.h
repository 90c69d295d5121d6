/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/paper.h: journals made by hand, for the tests of those who read them.
 *
 * For:       files of open lines, calls, adjusts and heads, chained and signed, in a directory of
 *            one test, and anchors of their lines.
 * Knows not: what a test spoils in them. */
#ifndef TESTS_UNIT_PAPER_H
#define TESTS_UNIT_PAPER_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "meter/files.h"
#include "meter/row.h"

#define PAPER_NOON_US INT64_C(1764590400000000) /* 2025-12-01 12:00 UTC */
#define PAPER_COST_PUSD 20000                   /* of each call: 10 × 1000 + 5 × 2000 */

/* An epoch that is being written. */
struct paper {
    char home[64];
    char anchors[128]; /* path */
    struct sign_key *key;
    const char *gateway;
    uint64_t epoch, seq, first_seq; /* seq: of the newest line */
    uint64_t exchange;              /* of the newest call */
    char hash[65];
    char file[160]; /* name */
    struct row_before newest;
};

static inline void paper_init(struct paper *paper)
{
    char path[128], problem[256];

    *paper = (struct paper){.gateway = "g1"};
    (void)snprintf(paper->home, sizeof(paper->home), "/tmp/tollgate-paper-XXXXXX");
    assert_non_null(mkdtemp(paper->home));
    (void)snprintf(path, sizeof(path), "%s/signing.key", paper->home);
    (void)snprintf(paper->anchors, sizeof(paper->anchors), "%s/anchors", paper->home);
    assert_int_equal(sign_key_open(path, true, &paper->key, problem, sizeof(problem)), OK);
}

static inline void paper_fini(struct paper *paper)
{
    char command[128];

    sign_key_close(paper->key);
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", paper->home);
    assert_int_equal(system(command), 0);
}

static inline void paper_path(const struct paper *paper, const char *name, char out[384])
{
    (void)snprintf(out, 384, "%s/%s", paper->home, name);
}

static inline void paper_append(const struct paper *paper, const char *name, const char *text,
                                size_t bytes)
{
    char path[384];
    FILE *file;

    paper_path(paper, name, path);
    file = fopen(path, "a");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    (void)fclose(file);
}

/* A line and its newline; the next one goes on from it. */
static inline void paper_line(struct paper *paper, const char *text, size_t bytes)
{
    paper_append(paper, paper->file, text, bytes);
    line_hash((struct span){text, bytes - 1}, paper->hash);
    paper->newest = (struct row_before){.seq = paper->seq};
    (void)snprintf(paper->newest.file, sizeof(paper->newest.file), "%s", paper->file);
    (void)snprintf(paper->newest.sha256, sizeof(paper->newest.sha256), "%s", paper->hash);
}

/* The next line's place in the chain. */
static inline struct row_link paper_link(struct paper *paper)
{
    return (struct row_link){.seq = ++paper->seq, .prev = paper->hash};
}

/* A new file of this epoch, with its open line. */
static inline void paper_open(struct paper *paper, const struct row_before *before, size_t count)
{
    struct row_author author;
    char *line = malloc(row_open_bytes_max(count, 0));
    struct row_link link = paper_link(paper);

    assert_non_null(line);
    paper->first_seq = link.seq;
    (void)snprintf(paper->file, sizeof(paper->file), "%s-%" PRIu64 "-%" PRIu64 ".jsonl",
                   paper->gateway, paper->epoch, link.seq);
    row_author_init(&author, span_of(paper->gateway), paper->epoch);
    paper_line(paper, line,
               row_render_open(&author, &link, PAPER_NOON_US, before, count, NULL, 0, line));
    free(line);
}

/* The next epoch, and its first file. */
static inline void paper_begin(struct paper *paper, const struct row_before *before, size_t count)
{
    paper->epoch++;
    paper->seq = 0;
    memset(paper->hash, '0', 64);
    paper->hash[64] = '\0';
    paper_open(paper, before, count);
}

/* A call of one exchange at a cost; 0: not billable. */
static inline void paper_call_of(struct paper *paper, uint64_t exchange, int64_t cost_pusd)
{
    char line[ROW_BYTES_MAX];
    const struct row_link link = paper_link(paper);
    const int bytes = snprintf(
        line, sizeof(line),
        "{\"v\":2,\"gateway\":\"%s\",\"epoch\":%" PRIu64 ",\"seq\":%" PRIu64
        ",\"kind\":\"call\",\"exchange_id\":\"%032" PRIx64 "\",\"request_id\":\"r%" PRIu64
        "\",\"tenant\":\"acme\",\"key\":\"web\",\"stream\":false,\"model\":\"small\",\"attempts\":"
        "1,"
        "\"input\":10,\"output\":5,\"source\":\"reported\",\"outcome\":\"ok\",\"status\":200,"
        "\"billable\":%s,\"prices\":{\"from\":0,\"input\":\"1000\",\"cached_input\":\"1000\","
        "\"cache_write\":\"1000\",\"output\":\"2000\",\"reasoning\":\"2000\"},\"cost_pusd\":"
        "\"%" PRId64 "\",\"admitted_us\":%" PRId64 ",\"ended_us\":%" PRId64
        ",\"bytes_in\":1,\"bytes_out\":1,\"prev\":\"%s\"}\n",
        paper->gateway, paper->epoch, link.seq, exchange, exchange,
        cost_pusd == 0 ? "false" : "true", cost_pusd, PAPER_NOON_US + (int64_t)exchange,
        PAPER_NOON_US + (int64_t)exchange + 1, paper->hash);

    paper_line(paper, line, (size_t)bytes);
}

static inline void paper_call(struct paper *paper)
{
    paper_call_of(paper, ++paper->exchange, PAPER_COST_PUSD);
}

static inline void paper_adjust(struct paper *paper, const char *adjusts, int64_t cost_pusd,
                                int64_t admitted_us)
{
    char line[ROW_BYTES_MAX];
    struct row_author author;
    const struct row_link link = paper_link(paper);
    const struct row_adjust adjust = {.adjusts = span_of(adjusts),
                                      .tenant = SPAN("acme"),
                                      .usage = {-1, -1, -1, -1, -1},
                                      .cost_pusd = cost_pusd,
                                      .admitted_us = admitted_us,
                                      .at_us = PAPER_NOON_US,
                                      .by = SPAN("ops"),
                                      .why = SPAN("a test")};

    row_author_init(&author, span_of(paper->gateway), paper->epoch);
    paper_line(paper, line, row_render_adjust(&author, &link, &adjust, line));
}

static inline void paper_head(struct paper *paper)
{
    char line[ROW_BYTES_MAX];
    struct row_author author;
    const struct row_link link = paper_link(paper);
    size_t bytes = 0;

    row_author_init(&author, span_of(paper->gateway), paper->epoch);
    assert_int_equal(
        row_render_head(&author, &link, PAPER_NOON_US, paper->first_seq, paper->key, line, &bytes),
        OK);
    paper_line(paper, line, bytes);
}

/* Tells the newest line. */
static inline void paper_anchor(struct paper *paper)
{
    char line[ROW_BYTES_MAX];
    size_t bytes = 0;

    assert_int_equal(row_render_anchor(span_of(paper->gateway), paper->epoch, &paper->newest,
                                       PAPER_NOON_US, paper->key, line, &bytes),
                     OK);
    paper_append(paper, "anchors", line, bytes);
}

/* ---- spoiling ---- */

static inline char *paper_read(const struct paper *paper, const char *name, size_t *out_bytes)
{
    char path[384];
    struct stat about;
    FILE *file;
    char *text;

    paper_path(paper, name, path);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &about), 0);
    text = malloc((size_t)about.st_size + 1);
    assert_non_null(text);
    *out_bytes = fread(text, 1, (size_t)about.st_size, file);
    text[*out_bytes] = '\0';
    (void)fclose(file);
    return text;
}

static inline void paper_write(const struct paper *paper, const char *name, const char *text,
                               size_t bytes)
{
    char path[384];

    paper_path(paper, name, path);
    assert_int_equal(truncate(path, 0), 0);
    paper_append(paper, name, text, bytes);
}

/* Where line number (from 1) of a file begins; behind the last: its size. */
static inline size_t paper_line_at(const char *text, size_t bytes, int number)
{
    size_t at = 0;

    for (; number > 1 && at < bytes; number--) {
        const char *end = memchr(text + at, '\n', bytes - at);
        at = end == NULL ? bytes : (size_t)(end - text) + 1;
    }
    return at;
}

/* Replaces a text that stands once in the file by another of the same length. */
static inline void paper_replace(const struct paper *paper, const char *name, const char *old,
                                 const char *new)
{
    size_t bytes;
    char *text = paper_read(paper, name, &bytes);
    char *at = memmem(text, bytes, old, strlen(old));

    assert_non_null(at);
    assert_int_equal(strlen(old), strlen(new));
    memcpy(at, new, strlen(new));
    paper_write(paper, name, text, bytes);
    free(text);
}

/* Takes lines out: from one number to another, this one not. */
static inline void paper_cut(const struct paper *paper, const char *name, int from, int until)
{
    size_t bytes;
    char *text = paper_read(paper, name, &bytes);
    const size_t start = paper_line_at(text, bytes, from);
    const size_t end = paper_line_at(text, bytes, until);

    memmove(text + start, text + end, bytes - end);
    paper_write(paper, name, text, bytes - (end - start));
    free(text);
}

#endif
