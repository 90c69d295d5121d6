/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_audit.c: does the journal hold what it promises (meter/audit*.c)?
 *
 * Promises:  1. A good journal has no findings: several files, a killed process, epochs that
 *               overlap, files that retention deleted, rows of version 1, a file that is being
 *               written.
 *            2. What is changed, cut, missing, moved or doubled is found, up to the last anchor,
 * with file, seq and byte offset.
 *            3. Amounts are worked out again; no exchange has two rows; adjusts correct what is
 * there and take back no more than was charged.
 *            4. What is not protected is counted and said. */
#include "tests/unit/paper.h"

#include "config/base/sign.h"
#include "meter/books.h"

#define FINDINGS_MAX 64

static struct paper paper;
static struct config config;
static struct audit_options options;
static struct audit_sums sums;
static struct {
    enum audit_finding_kind kind;
    char file[256];
    uint64_t seq;
    int64_t offset;
    char says[1024];
} findings[FINDINGS_MAX];
static size_t finding_count;
static char problem[512];

static int start(void **state)
{
    static char journal[64];

    (void)state;
    paper_init(&paper);
    memcpy(journal, paper.home, sizeof(journal));
    config = (struct config){.journal = span_of(journal), .gateway = SPAN("g1")};
    options = (struct audit_options){.anchors = paper.anchors};
    return 0;
}

static int stop(void **state)
{
    (void)state;
    paper_fini(&paper);
    return 0;
}

static void keep(void *owner, const struct audit_finding *finding)
{
    (void)owner;
    assert_true(finding_count < FINDINGS_MAX);
    findings[finding_count].kind = finding->kind;
    (void)snprintf(findings[finding_count].file, sizeof(findings[0].file), "%s",
                   finding->file == NULL ? "" : finding->file);
    findings[finding_count].seq = finding->seq;
    findings[finding_count].offset = finding->offset;
    (void)snprintf(findings[finding_count].says, sizeof(findings[0].says), "%s", finding->says);
    finding_count++;
}

static void run(void)
{
    finding_count = 0;
    assert_int_equal(
        books_audit(NULL, &config, &options, keep, NULL, &sums, problem, sizeof(problem)), OK);
}

/* Is there a finding of this kind, at this line? */
static bool found(enum audit_finding_kind kind, const char *file, uint64_t seq)
{
    for (size_t i = 0; i < finding_count; i++) {
        if (findings[i].kind == kind && strcmp(findings[i].file, file) == 0 &&
            findings[i].seq == seq)
            return true;
    }
    return false;
}

static void print_findings(void)
{
    for (size_t i = 0; i < finding_count; i++)
        print_message("%d %s seq %" PRIu64 " at %" PRId64 ": %s\n", findings[i].kind,
                      findings[i].file, findings[i].seq, findings[i].offset, findings[i].says);
}

static void assert_found(enum audit_finding_kind kind, const char *file, uint64_t seq)
{
    run();
    if (!found(kind, file, seq))
        print_findings();
    assert_true(found(kind, file, seq));
}

static void assert_good(void)
{
    run();
    if (sums.findings != 0)
        print_findings();
    assert_int_equal(sums.findings, 0);
}

/* Two files of a process that ended, one of a process that was killed in a line, and one of the
 * process that came after it; the newest line is anchored. */
static void write_journal(void)
{
    struct row_before before[2];

    paper_begin(&paper, NULL, 0);
    paper_call(&paper);
    paper_call(&paper);
    paper_call(&paper);
    paper_head(&paper);
    paper_open(&paper, NULL, 0);
    paper_call(&paper);
    paper_call(&paper);
    paper_head(&paper);
    before[0] = paper.newest;
    paper_begin(&paper, before, 1);
    paper_call(&paper);
    paper_call(&paper);
    before[1] = before[0];
    before[0] = paper.newest;
    paper_append(&paper, paper.file, "{\"v\":2,\"gatew", 13);
    paper_begin(&paper, before, 2);
    paper_call(&paper);
    paper_head(&paper);
    paper_anchor(&paper);
}

#define FIRST "g1-1-1.jsonl"
#define SECOND "g1-1-6.jsonl"
#define KILLED "g1-2-1.jsonl"
#define LAST "g1-3-1.jsonl"

/* ---- 1 ---- */

static void a_good_journal_has_no_findings(void **state)
{
    (void)state;
    write_journal();
    assert_good();
    assert_int_equal(sums.files, 4);
    assert_int_equal(sums.lines, 15);
    assert_int_equal(sums.calls, 8);
    assert_int_equal(sums.heads, 3);
    assert_int_equal(sums.anchors, 1);
    assert_true(sums.charged_pusd == 8 * PAPER_COST_PUSD);
    assert_int_equal(sums.rows_after_last_anchor, 0);
}

static void a_file_that_is_being_written_is_no_finding(void **state)
{
    (void)state;
    paper_begin(&paper, NULL, 0);
    paper_call(&paper);
    paper_anchor(&paper);
    paper_append(&paper, paper.file, "{\"v\":2", 6);
    assert_good();
}

static void a_next_file_without_a_line_closes_nothing(void **state)
{
    char name[200];

    (void)state;
    paper_begin(&paper, NULL, 0);
    paper_call(&paper);
    paper_anchor(&paper);
    (void)snprintf(name, sizeof(name), "g1-%" PRIu64 "-%" PRIu64 ".jsonl", paper.epoch,
                   paper.seq + 2);
    paper_append(&paper, name, "", 0);
    assert_good();
    paper_append(&paper, name, "{\"v\":2", 6);
    assert_good();
}

static void epochs_that_overlap_are_no_finding(void **state)
{
    struct paper successor;
    struct row_before before;

    (void)state;
    paper_begin(&paper, NULL, 0);
    paper_call(&paper);
    before = paper.newest;
    successor = paper;
    paper_begin(&successor, &before, 1);
    successor.exchange = 100;
    paper_call(&successor);
    paper_call(&paper);
    paper_head(&paper);
    paper_head(&successor);
    paper_anchor(&successor);
    paper_anchor(&paper);
    assert_good();
}

static void files_that_retention_deleted_are_no_finding(void **state)
{
    size_t bytes, head_at;
    char *text, path[384];

    (void)state;
    write_journal();
    text = paper_read(&paper, FIRST, &bytes);
    head_at = paper_line_at(text, bytes, 5);
    paper_append(&paper, "retired.jsonl", text, paper_line_at(text, bytes, 2));
    paper_append(&paper, "retired.jsonl", text + head_at, bytes - head_at);
    free(text);
    assert_good();                                           /* both are there for a moment */
    paper_append(&paper, "retired.jsonl", "{\"v\":2,\n", 8); /* a write that was cut, and ended */
    paper_path(&paper, FIRST, path);
    assert_int_equal(unlink(path), 0);
    assert_good();
    paper_replace(&paper, "retired.jsonl", "\"kind\":\"head\",\"at_us\":1",
                  "\"kind\":\"head\",\"at_us\":2");
    run();
    assert_true(found(AUDIT_HEAD, "retired.jsonl", 5));
}

static void rows_of_version_1_are_noted(void **state)
{
    static const char line[] =
        "{\"v\":1,\"gateway\":\"g0\",\"epoch\":1,\"seq\":1,\"kind\":\"call\","
        "\"exchange_id\":\"e\",\"tenant\":\"acme\",\"billable\":false,"
        "\"cost_pusd\":\"0\",\"admitted_us\":1}\n";

    (void)state;
    write_journal();
    paper_append(&paper, "g0-1-1.jsonl", line, sizeof(line) - 1);
    assert_good();
    assert_true(found(AUDIT_NOTE, "g0-1-1.jsonl", 0));
    paper.gateway = "g0"; /* who goes on with version 2 never goes back */
    paper.epoch = 1;
    paper_begin(&paper, NULL, 0);
    paper_head(&paper);
    assert_good();
    paper_append(&paper, "g0-3-1.jsonl", line, sizeof(line) - 1);
    paper_replace(&paper, "g0-3-1.jsonl", "\"epoch\":1", "\"epoch\":3");
    paper_replace(&paper, "g0-3-1.jsonl", "\"exchange_id\":\"e\"", "\"exchange_id\":\"f\"");
    assert_found(AUDIT_CHAIN, "g0-3-1.jsonl", 0);
}

/* ---- 2 ---- */

static void a_changed_byte_is_found_at_its_line(void **state)
{
    size_t bytes;
    char *text;

    (void)state;
    write_journal();
    text = paper_read(&paper, FIRST, &bytes);
    paper_replace(&paper, FIRST, "\"request_id\":\"r2\"", "\"request_id\":\"x2\"");
    assert_found(AUDIT_CHAIN, FIRST, 4); /* whose prev is of the line before it */
    for (size_t i = 0; i < finding_count; i++) {
        if (findings[i].kind == AUDIT_CHAIN)
            assert_int_equal(findings[i].offset, paper_line_at(text, bytes, 4));
    }
    assert_int_equal(sums.findings, 1);
    free(text);
}

static void a_line_that_is_no_row_is_found(void **state)
{
    (void)state;
    write_journal();
    paper_replace(&paper, SECOND, "\"kind\":\"call\"", "\"kind\":\"c\x01ll\"");
    assert_found(AUDIT_DAMAGED, SECOND, 7);
}

static void the_last_line_of_a_killed_process_is_protected_by_who_came_after(void **state)
{
    (void)state;
    write_journal();
    paper_replace(&paper, KILLED, "\"request_id\":\"r7\"", "\"request_id\":\"x7\"");
    assert_found(AUDIT_CHAIN, KILLED, 3);
    paper_replace(&paper, KILLED, "\"request_id\":\"x7\"", "\"request_id\":\"r7\"");
    paper_cut(&paper, KILLED, 3, 5);
    assert_found(AUDIT_MISSING, KILLED, 3);
}

static void the_last_line_of_all_is_protected_by_its_anchor(void **state)
{
    (void)state;
    write_journal();
    paper_replace(&paper, LAST, "\"kind\":\"head\",\"at_us\":1", "\"kind\":\"head\",\"at_us\":2");
    assert_found(AUDIT_ANCHOR, LAST, 3);
    assert_true(found(AUDIT_HEAD, LAST, 3));
    paper_cut(&paper, LAST, 3, 4);
    assert_found(AUDIT_MISSING, LAST, 3);
}

static void rows_deleted_swapped_and_doubled_are_found(void **state)
{
    size_t bytes, second, third, fourth;
    char *text, *changed;

    (void)state;
    write_journal();
    text = paper_read(&paper, FIRST, &bytes);
    second = paper_line_at(text, bytes, 2);
    third = paper_line_at(text, bytes, 3);
    fourth = paper_line_at(text, bytes, 4);
    paper_cut(&paper, FIRST, 3, 4);
    assert_found(AUDIT_CHAIN, FIRST, 4);
    changed = malloc(2 * bytes);
    assert_non_null(changed);
    memcpy(changed, text, second);
    memcpy(changed + second, text + third, fourth - third);
    memcpy(changed + second + fourth - third, text + second, third - second);
    memcpy(changed + fourth, text + fourth, bytes - fourth);
    paper_write(&paper, FIRST, changed, bytes);
    assert_found(AUDIT_CHAIN, FIRST, 3);
    memcpy(changed, text, third);
    memcpy(changed + third, text + second, bytes - second);
    paper_write(&paper, FIRST, changed, bytes + third - second);
    assert_found(AUDIT_CHAIN, FIRST, 2);
    assert_true(found(AUDIT_TWICE, FIRST, 2));
    free(changed);
    free(text);
}

static void files_that_are_gone_are_found(void **state)
{
    static const struct {
        const char *gone, *named;
        uint64_t seq;
    } cases[] = {{FIRST, SECOND, 6}, {SECOND, SECOND, 9}, {KILLED, KILLED, 3}, {LAST, LAST, 3}};

    (void)state;
    write_journal();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t bytes;
        char path[384];
        char *text = paper_read(&paper, cases[i].gone, &bytes);
        paper_path(&paper, cases[i].gone, path);
        assert_int_equal(unlink(path), 0);
        assert_found(AUDIT_MISSING, cases[i].named, cases[i].seq);
        paper_append(&paper, cases[i].gone, text, bytes);
        free(text);
    }
    assert_good();
}

static void a_closed_file_without_its_head_is_found(void **state)
{
    (void)state;
    write_journal();
    paper_cut(&paper, FIRST, 5, 6);
    assert_found(AUDIT_MISSING, FIRST, 0);
}

static void a_row_behind_a_head_is_found(void **state)
{
    size_t bytes;
    char *text;

    (void)state;
    write_journal();
    text = paper_read(&paper, SECOND, &bytes);
    paper_append(&paper, LAST, text, paper_line_at(text, bytes, 2));
    free(text);
    assert_found(AUDIT_DAMAGED, LAST, 4);
    paper_append(&paper, SECOND, "{\"v\"", 4);
    run();
    assert_true(found(AUDIT_DAMAGED, SECOND, 0));
}

static void a_head_of_another_key_is_found(void **state)
{
    struct sign_key *ours = paper.key;
    char path[128];

    (void)state;
    paper_begin(&paper, NULL, 0);
    paper_call(&paper);
    (void)snprintf(path, sizeof(path), "%s/other.key", paper.home);
    assert_int_equal(sign_key_open(path, true, &paper.key, problem, sizeof(problem)), OK);
    paper_head(&paper);
    paper_anchor(&paper);
    sign_key_close(paper.key);
    paper.key = ours;
    assert_found(AUDIT_HEAD, "g1-1-1.jsonl", 3);
    assert_int_equal(sums.heads, 0);
    assert_true(found(AUDIT_ANCHOR, paper.anchors, 3));
    assert_int_equal(sums.anchors, 0);
}

/* The key was replaced between two processes, and each has told anchors. */
static void write_rotated_journal(struct sign_key **ours, char path[128])
{
    *ours = paper.key;
    (void)snprintf(path, 128, "%s/new.key", paper.home);
    paper_begin(&paper, NULL, 0);
    paper_call(&paper);
    paper_anchor(&paper);
    paper_head(&paper);
    paper_anchor(&paper);
    const struct row_before before = paper.newest;
    assert_int_equal(sign_key_open(path, true, &paper.key, problem, sizeof(problem)), OK);
    paper_begin(&paper, &before, 1);
    paper_call(&paper);
    paper_head(&paper);
    paper_anchor(&paper);
}

static void each_head_and_anchor_may_be_of_any_key_that_is_given(void **state)
{
    struct sign_key *ours;
    char key[128], first[128], second[128];

    (void)state;
    write_rotated_journal(&ours, key);
    (void)snprintf(first, sizeof(first), "%s/signing.pub", paper.home);
    (void)snprintf(second, sizeof(second), "%s/new.pub", paper.home);
    options.public_keys[0] = second;
    options.public_keys[1] = first;
    assert_good();
    assert_int_equal(sums.heads, 2);
    assert_int_equal(sums.anchors, 3);
    assert_int_equal(sums.signer_count, 2);
    assert_string_equal(sums.signers[0].key, sign_key_id(paper.key));
    assert_int_equal(sums.signers[0].heads, 1);
    assert_int_equal(sums.signers[0].anchors, 1);
    assert_string_equal(sums.signers[1].key, sign_key_id(ours));
    assert_int_equal(sums.signers[1].heads, 1);
    assert_int_equal(sums.signers[1].anchors, 2);
    assert_true(sums.signers[1].newest_us > 0);

    options.public_keys[0] = paper.home; /* the folder of both */
    options.public_keys[1] = first;      /* again: counted once */
    assert_good();
    assert_int_equal(sums.signer_count, 2);

    options.public_keys[0] = first;
    options.public_keys[1] = NULL;
    assert_found(AUDIT_HEAD, "g1-2-1.jsonl", 3);
    assert_true(found(AUDIT_ANCHOR, paper.anchors, 3));
    options.public_keys[0] = second;
    assert_found(AUDIT_HEAD, "g1-1-1.jsonl", 3);
    sign_key_close(paper.key);
    paper.key = ours;
}

/* A head that names one key and is signed by the other is nobody's. */
static void a_head_is_held_against_the_key_that_it_names(void **state)
{
    struct sign_key *ours;
    char key[128];

    (void)state;
    write_rotated_journal(&ours, key);
    options.public_keys[0] = paper.home;
    paper_replace(&paper, "g1-2-1.jsonl", sign_key_id(paper.key), sign_key_id(ours));
    assert_found(AUDIT_HEAD, "g1-2-1.jsonl", 3);
    assert_int_equal(sums.heads, 1);
    sign_key_close(paper.key);
    paper.key = ours;
}

static void an_anchor_that_was_changed_is_found(void **state)
{
    (void)state;
    write_journal();
    paper_replace(&paper, "anchors", "\"seq\":3", "\"seq\":2");
    assert_found(AUDIT_ANCHOR, paper.anchors, 2);
}

/* ---- 3 ---- */

static void amounts_are_worked_out_again(void **state)
{
    (void)state;
    paper_begin(&paper, NULL, 0);
    paper_call_of(&paper, 1, PAPER_COST_PUSD + 1);
    paper_call_of(&paper, 2, PAPER_COST_PUSD);
    paper_anchor(&paper);
    assert_found(AUDIT_PRICE, "g1-1-1.jsonl", 2);
    assert_int_equal(sums.findings, 1);
    assert_string_equal(findings[0].says,
                        "20001 pusd were charged, its tokens and rates come to 20000");
}

static void an_exchange_with_two_rows_is_found(void **state)
{
    (void)state;
    paper_begin(&paper, NULL, 0);
    for (uint64_t i = 1; i <= 2000; i++)
        paper_call_of(&paper, i, PAPER_COST_PUSD);
    paper_head(&paper);
    paper_begin(&paper, &paper.newest, 1);
    paper_call_of(&paper, 77, PAPER_COST_PUSD);
    paper_anchor(&paper);
    assert_found(AUDIT_TWICE, "g1-2-1.jsonl", 2);
    assert_int_equal(sums.findings, 1);
}

static void adjusts_correct_what_is_there(void **state)
{
    static const struct {
        const char *adjusts;
        int64_t cost_pusd;
        int64_t moment;
        enum audit_finding_kind kind;
        bool good;
    } cases[] = {
        {"g1/1/2", -PAPER_COST_PUSD, 1, AUDIT_NOTE, true},
        {"g1/1/2", -1, 1, AUDIT_NOTE, true},
        {"g1/1/2", 500, 1, AUDIT_NOTE, true},
        {"", -500, 7, AUDIT_NOTE, true},
        {"g1/1/2", -PAPER_COST_PUSD - 1, 1, AUDIT_PRICE, false},
        {"g1/1/2", -1, 2, AUDIT_PRICE, false},
        {"g1/1/1", -1, 1, AUDIT_MISSING, false},
        {"g1/1/9", -1, 1, AUDIT_MISSING, false},
        {"g1/9/2", -1, 1, AUDIT_MISSING, false},
        {"g9/1/2", -1, 1, AUDIT_MISSING, false},
        {"g1/1", -1, 1, AUDIT_MISSING, false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (i > 0)
            (void)start(state);
        paper_begin(&paper, NULL, 0);
        paper_call(&paper);
        paper_head(&paper);
        paper_begin(&paper, &paper.newest, 1);
        paper_adjust(&paper, cases[i].adjusts, cases[i].cost_pusd, PAPER_NOON_US + cases[i].moment);
        paper_head(&paper);
        paper_anchor(&paper);
        if (cases[i].good)
            assert_good();
        else
            assert_found(cases[i].kind, "g1-2-1.jsonl", 2);
        assert_int_equal(sums.adjusts, 1);
        if (i + 1 < sizeof(cases) / sizeof(cases[0]))
            (void)stop(state);
    }
}

static void adjusts_of_one_row_are_added_up(void **state)
{
    (void)state;
    paper_begin(&paper, NULL, 0);
    paper_call(&paper);
    paper_adjust(&paper, "g1/1/2", -PAPER_COST_PUSD, PAPER_NOON_US + 1);
    paper_adjust(&paper, "g1/1/2", -PAPER_COST_PUSD, PAPER_NOON_US + 1);
    paper_anchor(&paper);
    assert_found(AUDIT_PRICE, "g1-1-1.jsonl", 4);
    assert_int_equal(sums.findings, 1);
    assert_true(sums.charged_pusd == -PAPER_COST_PUSD);
}

/* ---- 4 ---- */

static void rows_after_the_last_anchor_are_counted(void **state)
{
    (void)state;
    write_journal();
    paper_begin(&paper, &paper.newest, 1);
    paper_call(&paper);
    paper_call(&paper);
    assert_good();
    assert_int_equal(sums.rows_after_last_anchor, 2);
    paper_anchor(&paper);
    assert_good();
    assert_int_equal(sums.rows_after_last_anchor, 0);
    options.anchors = NULL;
    assert_good();
    assert_int_equal(sums.rows_after_last_anchor, 10);
}

static void a_key_beside_the_journal_is_said(void **state)
{
    bool said = false;

    (void)state;
    write_journal();
    run();
    for (size_t i = 0; i < finding_count; i++)
        said = said || (findings[i].kind == AUDIT_NOTE && strstr(findings[i].says, "signing.key"));
    assert_true(said);
}

static void a_table_that_cannot_be_read_is_noted(void **state)
{
    (void)state;
    write_journal();
    paper_append(&paper, "g1-9.inflight", "of another version", 18);

    assert_good();

    assert_true(found(AUDIT_NOTE, "g1-9.inflight", 0));
}

static void without_a_public_key_there_is_no_audit(void **state)
{
    (void)state;
    write_journal();
    options.public_keys[0] = "/tmp/tollgate-no-such-key.pub";
    assert_int_equal(
        books_audit(NULL, &config, &options, keep, NULL, &sums, problem, sizeof(problem)),
        ERR_BAD_VALUE);
    assert_non_null(strstr(problem, "no-such-key"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
    const struct CMUnitTest tests[] = {
        TEST(a_good_journal_has_no_findings),
        TEST(each_head_and_anchor_may_be_of_any_key_that_is_given),
        TEST(a_head_is_held_against_the_key_that_it_names),
        TEST(a_file_that_is_being_written_is_no_finding),
        TEST(a_next_file_without_a_line_closes_nothing),
        TEST(epochs_that_overlap_are_no_finding),
        TEST(files_that_retention_deleted_are_no_finding),
        TEST(rows_of_version_1_are_noted),
        TEST(a_changed_byte_is_found_at_its_line),
        TEST(a_line_that_is_no_row_is_found),
        TEST(the_last_line_of_a_killed_process_is_protected_by_who_came_after),
        TEST(the_last_line_of_all_is_protected_by_its_anchor),
        TEST(rows_deleted_swapped_and_doubled_are_found),
        TEST(files_that_are_gone_are_found),
        TEST(a_closed_file_without_its_head_is_found),
        TEST(a_row_behind_a_head_is_found),
        TEST(a_head_of_another_key_is_found),
        TEST(an_anchor_that_was_changed_is_found),
        TEST(amounts_are_worked_out_again),
        TEST(an_exchange_with_two_rows_is_found),
        TEST(adjusts_correct_what_is_there),
        TEST(adjusts_of_one_row_are_added_up),
        TEST(rows_after_the_last_anchor_are_counted),
        TEST(a_key_beside_the_journal_is_said),
        TEST(a_table_that_cannot_be_read_is_noted),
        TEST(without_a_public_key_there_is_no_audit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
