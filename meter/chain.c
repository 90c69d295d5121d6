/* SPDX-License-Identifier: Apache-2.0 */
/* meter/chain.c: lines of the journal, one after another: is each where it belongs.
 *
 * For:       faults in the order of lines, each told once, at the line that shows it.
 * Called by: audit.c.
 * Knows not: files, amounts, what other epochs say of this one. */
#include "meter/chain.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "meter/files.h"

#define GATEWAY_BYTES 512 /* with every escape undone a name is shorter than it is spelt */

__attribute__((format(printf, 4, 5))) static void tell(struct chain *chain,
                                                       enum audit_finding_kind kind, uint64_t seq,
                                                       const char *format, ...)
{
    char says[CHAIN_SAYS_BYTES];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(says, sizeof(says), format, arguments);
    va_end(arguments);
    chain->tell(chain, kind, seq, says);
}

void chain_begin(struct chain *chain, const char *gateway, uint64_t epoch)
{
    chain->gateway = gateway;
    chain->epoch = epoch;
    chain->seq = 0;
    (void)snprintf(chain->hash, sizeof(chain->hash), RECORD_NO_PREV);
    chain->unlinked = false;
    chain->read_any = false;
    chain->began_file = false;
    chain->ended_file = false;
}

/* Do gateway and epoch of the line say what its file's name says? */
static void check_author(struct chain *chain, const struct record *record)
{
    char gateway[GATEWAY_BYTES];

    (void)record_text(record->gateway, gateway, sizeof(gateway));
    if (strcmp(gateway, chain->gateway) != 0 || record->epoch != chain->epoch)
        tell(chain, AUDIT_CHAIN, record->seq,
             "the line says gateway %.64s, epoch %" PRIu64
             ", its file is of gateway %s, epoch %" PRIu64,
             gateway, record->epoch, chain->gateway, chain->epoch);
}

/* The number, and true when the line is the one right behind the line before. */
static bool check_number(struct chain *chain, const struct record *record)
{
    const uint64_t expected = chain->seq + 1;

    if (record->seq == expected)
        return true;
    if (record->seq > expected && !chain->began_file)
        tell(chain, AUDIT_MISSING, record->seq,
             "lines %" PRIu64 " to %" PRIu64 " of this epoch are missing before this file",
             expected, record->seq - 1);
    else if (record->seq > expected)
        tell(chain, AUDIT_CHAIN, record->seq,
             "seq %" PRIu64 " comes after %" PRIu64 ": %" PRIu64 " line%s missing", record->seq,
             chain->seq, record->seq - expected, record->seq - expected == 1 ? " is" : "s are");
    else
        tell(chain, AUDIT_CHAIN, record->seq,
             "seq %" PRIu64 " comes after %" PRIu64 ": it comes twice, or out of its order",
             record->seq, chain->seq);
    return false;
}

static void check_prev(struct chain *chain, const struct record *record)
{
    if (chain->unlinked) {
        if (record->version > 1)
            tell(chain, AUDIT_CHAIN, record->seq,
                 "a line of version %" PRId64 " amid lines of version 1", record->version);
    } else if (record->prev.data == NULL) {
        tell(chain, AUDIT_CHAIN, record->seq, "the line has no prev");
    } else if (!span_equal(record->prev, span_of(chain->hash))) {
        if (record->seq == 1)
            tell(chain, AUDIT_CHAIN, record->seq, "prev of an epoch's first line is not zeros");
        else
            tell(chain, AUDIT_CHAIN, record->seq,
                 "prev is not the hash of the line before it: one of the two was changed");
    }
}

/* Is an open where one must be, and nowhere else? */
static void check_open(struct chain *chain, const struct record *record)
{
    if (chain->began_file) {
        if (record->kind == RECORD_OPEN)
            tell(chain, AUDIT_DAMAGED, record->seq, "an open line amid a file");
        return;
    }
    if (record->kind != RECORD_OPEN && !chain->unlinked)
        tell(chain, AUDIT_DAMAGED, record->seq, "the file does not begin with an open line");
    if (record->seq != chain->first_seq)
        tell(chain, AUDIT_CHAIN, record->seq,
             "the file's name says that it begins with seq %" PRIu64 ", its first line is %" PRIu64,
             chain->first_seq, record->seq);
}

static bool check_signature(struct chain *chain, const struct record *record, struct span line)
{
    struct keyring_key *by;
    char ours[KEYRING_TEXT_BYTES];

    if (chain->keys == NULL)
        return true;
    by = keyring_find(chain->keys, record->signing_key);
    if (by == NULL) {
        tell(chain, AUDIT_HEAD, record->seq, "the head is signed by key %.*s, and not by %s",
             (int)(record->signing_key.size < 64 ? record->signing_key.size : 64),
             record->signing_key.size > 0 ? record->signing_key.data : "",
             keyring_print(chain->keys, ours));
        return false;
    }
    if (!verify_text(by->key, (struct span){line.data, record->signed_bytes}, record->signature)) {
        tell(chain, AUDIT_HEAD, record->seq, "the head's signature is not good");
        return false;
    }
    by->signer.heads++;
    if (record->at_us > by->signer.newest_us)
        by->signer.newest_us = record->at_us;
    return true;
}

static void check_head(struct chain *chain, const struct record *record, struct span line)
{
    bool good = true;

    if (record->first_seq != chain->first_seq) {
        tell(chain, AUDIT_HEAD, record->seq,
             "the head says that its file begins with seq %" PRIu64 ", it begins with %" PRIu64,
             record->first_seq, chain->first_seq);
        good = false;
    }
    if (!check_signature(chain, record, line))
        good = false;
    if (good)
        chain->heads++;
}

static void step(struct chain *chain, struct span line, uint64_t seq)
{
    chain->seq = seq;
    line_hash(line, chain->hash);
    chain->began_file = true;
}

void chain_file(struct chain *chain, uint64_t first_seq)
{
    chain->first_seq = first_seq;
    chain->began_file = false;
    chain->ended_file = false;
}

bool chain_line(struct chain *chain, struct span line, struct record *out_record)
{
    char problem[256];

    if (chain->ended_file)
        tell(chain, AUDIT_DAMAGED, chain->seq + 1, "a line behind the file's head");
    chain->ended_file = false;
    if (record_read(line, out_record, problem, sizeof(problem)) != OK) {
        tell(chain, AUDIT_DAMAGED, chain->seq + 1, "not a row: %s", problem);
        step(chain, line, chain->began_file ? chain->seq + 1 : chain->first_seq);
        return false;
    }
    if (!chain->read_any)
        chain->unlinked = out_record->version == 1 && out_record->prev.data == NULL;
    chain->read_any = true;
    check_author(chain, out_record);
    check_open(chain, out_record);
    if (check_number(chain, out_record))
        check_prev(chain, out_record);
    if (out_record->kind == RECORD_HEAD) {
        check_head(chain, out_record, line);
        chain->ended_file = true;
    }
    step(chain, line, out_record->seq);
    return true;
}

void chain_file_end(struct chain *chain, bool torn, bool last)
{
    if (torn && (chain->ended_file || !last))
        tell(chain, AUDIT_DAMAGED, 0, "bytes behind the last line of a closed file");
    else if (torn)
        tell(chain, AUDIT_NOTE, 0,
             "the last line is not whole: it is being written, or its process died in it");
    if (!chain->began_file) {
        tell(chain, last ? AUDIT_NOTE : AUDIT_MISSING, 0, "the file has no whole line");
    } else if (!chain->ended_file && !last && !chain->unlinked) {
        tell(chain, AUDIT_MISSING, 0, "a closed file does not end with a head");
    } else if (!chain->ended_file && !chain->unlinked) {
        tell(chain, AUDIT_NOTE, 0, "no head yet: its process runs, or was killed");
    } else if (chain->unlinked && last) {
        tell(chain, AUDIT_NOTE, 0, "lines of version 1: nothing shows whether they were changed");
    }
}

void chain_retired(struct chain *chain, struct span open, struct span head)
{
    struct record record;
    char problem[256];

    if (record_read(open, &record, problem, sizeof(problem)) != OK) {
        tell(chain, AUDIT_DAMAGED, 0, "not a row: %s", problem);
        return;
    }
    chain_file(chain, record.seq);
    if (!chain_line(chain, open, &record))
        return;
    if (record_read(head, &record, problem, sizeof(problem)) != OK || record.kind != RECORD_HEAD) {
        tell(chain, AUDIT_DAMAGED, 0, "not a head");
        return;
    }
    check_author(chain, &record);
    check_head(chain, &record, head);
    step(chain, head, record.seq);
    chain->ended_file = true;
}
