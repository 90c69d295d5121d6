/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_h2.c: HTTP/2 to exchanges and back, against a real client session in memory.
 *
 * Promises:  1. A request reaches its exchange whole: method, target, fields, body, end.
 *            2. An answer leaves whole and in order, whatever the socket takes at a time; a broken
 * one is reset behind its data.
 *            3. What is malformed or too large is refused on its stream alone.
 *            4. What costs a client nothing is bounded: resets, control frames, silence, stalled
 * streams.
 *            5. Windows of uploads are given back; an early answer stops the upload.
 *            6. A drain lets streams under way end.
 *
 * The layer of exchanges, the socket and the clock below are fakes of this file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <nghttp2/nghttp2.h>

#include "config/base/clock.h"
#include "gateway/conn.h"
#include "gateway/h2.h"

#define EXCHANGES_MAX 4096
#define WIRE_BYTES (4 << 20)

/* ---- the fake layer of exchanges: records what it is told ---- */

struct seen {
    struct exchange x;
    bool begun, body_ended, abandoned, answered;
    enum err refused;
    size_t body_bytes;
    uint32_t fields;
    uint32_t deliveries;
    struct span host, custom;
};

static struct seen *exchanges[EXCHANGES_MAX];
static size_t exchange_total;
static enum err body_verdict; /* what exchange_body() says */
static struct config config;
static struct server server;
static struct worker worker;
static struct conn conn;

static struct seen *seen_of(struct exchange *x)
{
    return container_of(x, struct seen, x);
}

struct exchange *exchange_open(struct worker *of, struct conn *from)
{
    struct seen *seen = calloc(1, sizeof *seen);

    assert_non_null(seen);
    assert_true(exchange_total < EXCHANGES_MAX);
    exchanges[exchange_total++] = seen;
    seen->x.worker = of;
    seen->x.conn = from;
    seen->x.config = &config;
    arena_init(&seen->x.arena, NULL, 0, 1 << 20);
    return &seen->x;
}

enum err exchange_field(struct exchange *x, struct span name, struct span value)
{
    struct seen *seen = seen_of(x);

    seen->fields++;
    if (span_equal(name, SPAN("host")))
        seen->host = arena_copy(&x->arena, value);
    if (span_equal(name, SPAN("x-task-class")))
        seen->custom = arena_copy(&x->arena, value);
    return OK;
}

void exchange_begin(struct exchange *x)
{
    seen_of(x)->begun = true;
}

void exchange_refuse(struct exchange *x, enum err err)
{
    seen_of(x)->refused = err;
    x->answer.status = err_row(err)->status;
    x->answer.framing = ANSWER_NO_BODY;
    x->answer.ready = true;
    h2_answer(x);
}

enum err exchange_body(struct exchange *x, struct span piece)
{
    seen_of(x)->body_bytes += piece.size;
    return body_verdict;
}

void exchange_body_end(struct exchange *x)
{
    seen_of(x)->body_ended = true;
}

void exchange_abandon(struct exchange *x)
{
    assert_false(seen_of(x)->answered);
    seen_of(x)->abandoned = true;
    x->conn = NULL;
}

void exchange_delivering(struct exchange *x, const struct chunk *chunk)
{
    assert_ptr_equal(x->rider.cursor, chunk);
    seen_of(x)->deliveries++;
}

void exchange_answered(struct exchange *x)
{
    assert_false(seen_of(x)->answered);
    seen_of(x)->answered = true;
    x->conn = NULL;
}

const char *server_date(struct worker *of)
{
    (void)of;
    return "Mon, 30 Nov 2026 15:00:00 GMT";
}

/* ---- the fake socket: takes so much, then no more ---- */

static char *wire;
static size_t wire_size;
static size_t wire_room; /* bytes that it still takes */
static int sends;

enum io_result io_send(struct io *io, struct iovec *pieces, int count, size_t *out_size)
{
    size_t wanted = 0;
    *out_size = 0;
    sends++;
    for (int i = 0; i < count; i++) {
        const size_t taken = pieces[i].iov_len < wire_room ? pieces[i].iov_len : wire_room;
        if (taken > 0)
            memcpy(wire + wire_size, pieces[i].iov_base, taken);
        wire_size += taken;
        wire_room -= taken;
        *out_size += taken;
        wanted += pieces[i].iov_len;
    }
    io->writable = *out_size == wanted;
    assert_true(wire_size <= WIRE_BYTES);
    return *out_size > 0 ? IO_DONE : IO_AGAIN;
}

bool io_has_unsent(const struct io *io)
{
    (void)io;
    return false;
}

bool conn_serves(struct conn *of, struct span host)
{
    (void)of;
    return !span_equal(host, SPAN("other.example"));
}

/* ---- the client: nghttp2's own ---- */

struct answer_seen {
    int status;
    size_t bytes;
    bool ended, closed, has_date;
    uint32_t reset; /* error code of the close */
    char text[256];
    long length; /* content-length, -1: none */
    int interim;
};

static nghttp2_session *client;
static struct answer_seen answers[64]; /* by (stream id - 1) / 2 */
static uint32_t goaway_code;
static int32_t goaway_last_id;
static int goaways, pings;

static struct answer_seen *answer_of(int32_t id)
{
    return &answers[(id - 1) / 2 % 64];
}

static int client_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                         size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
                         void *user)
{
    struct answer_seen *answer = answer_of(frame->hd.stream_id);
    const struct span field = {(const char *)name, name_size};
    const struct span text = {(const char *)value, value_size};
    int64_t number = -1;

    (void)session, (void)flags, (void)user;
    if (span_equal(field, SPAN(":status")) && span_to_int64(text, &number)) {
        if (number < 200)
            answer->interim = (int)number;
        else
            answer->status = (int)number;
    }
    if (span_equal(field, SPAN("content-length")) && span_to_int64(text, &number))
        answer->length = (long)number;
    if (span_equal(field, SPAN("date")))
        answer->has_date = true;
    return 0;
}

static int client_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                       size_t size, void *user)
{
    struct answer_seen *answer = answer_of(id);

    (void)session, (void)flags, (void)user;
    for (size_t i = 0; i < size; i++, answer->bytes++)
        if (answer->bytes < sizeof answer->text - 1)
            answer->text[answer->bytes] = (char)data[i];
    return 0;
}

static int client_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    (void)session, (void)user;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        goaways++;
        goaway_code = frame->goaway.error_code;
        goaway_last_id = frame->goaway.last_stream_id;
    } else if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0) {
        pings++;
    } else if ((frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS) &&
               (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) {
        answer_of(frame->hd.stream_id)->ended = true;
    }
    return 0;
}

static int client_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
    (void)session, (void)user;
    answer_of(id)->closed = true;
    answer_of(id)->reset = code;
    return 0;
}

/* ---- moving bytes ---- */

static bool alive; /* what h2_receive() and h2_flush() said last */

/* The conn's output to the client. */
static void to_client(void)
{
    alive = h2_flush(&conn);
    if (wire_size > 0)
        assert_int_equal(nghttp2_session_mem_recv(client, (uint8_t *)wire, wire_size), wire_size);
    wire_size = 0;
}

/* The client's output to the conn, and back, until nothing moves. */
static void exchange_bytes(void)
{
    const uint8_t *bytes = NULL;

    for (int round = 0; round < 200 && conn.h2; round++) {
        ssize_t size;
        bool moved = false;
        while ((size = nghttp2_session_mem_send(client, &bytes)) > 0) {
            moved = true;
            alive = h2_receive(&conn, (struct span){(const char *)bytes, (size_t)size});
            if (!alive)
                return;
        }
        to_client();
        if (!alive || (!moved && !nghttp2_session_want_write(client)))
            return;
    }
}

static void pass_ms(uint64_t ms)
{
    worker.now_ns += ms * NS_PER_MS;
}

static int set_up(void **state)
{
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;

    (void)state;
    memset(&config, 0, sizeof config);
#define OPTION(name, type, fallback, minimum, maximum, unit, reload, help) config.name = fallback;
#include "config/options.def"
#undef OPTION
    memset(answers, 0, sizeof answers);
    for (size_t i = 0; i < 64; i++)
        answers[i].length = -1;
    goaways = pings = sends = 0;
    exchange_total = 0;
    memset(exchanges, 0, sizeof exchanges);
    body_verdict = OK;
    wire_size = 0;
    wire_room = SIZE_MAX;
    wire = malloc(WIRE_BYTES);
    memset(&worker, 0, sizeof worker);
    worker.server = &server;
    worker.config = &config;
    worker.now_ns = 1000 * NS_PER_S;
    worker.out = malloc(WORKER_SCRATCH_BYTES);
    memset(&conn, 0, sizeof conn);
    conn.worker = &worker;
    conn.io.writable = true;
    assert_int_equal(h2_open(&conn), OK);

    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, client_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, client_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, client_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, client_close);
    nghttp2_option_new(&option);
    nghttp2_option_set_no_http_messaging(option, 1); /* it shall send what is malformed, too */
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_max_send_header_block_length(option, 256 * 1024);
    assert_int_equal(nghttp2_session_client_new2(&client, callbacks, NULL, option), 0);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(client, NGHTTP2_FLAG_NONE, NULL, 0);
    exchange_bytes();
    assert_true(alive);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    h2_close(&conn);
    nghttp2_session_del(client);
    buffer_free(&conn.left);
    for (size_t i = 0; i < exchange_total; i++) {
        rider_fini(&exchanges[i]->x.rider);
        body_free(&exchanges[i]->x.body);
        arena_fini(&exchanges[i]->x.arena);
        free(exchanges[i]);
    }
    free(worker.out);
    free(wire);
    return 0;
}

/* ---- requests and answers ---- */

#define FIELD(name, value)                                                                         \
    {                                                                                              \
        (uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), strlen(name), strlen(value),  \
            NGHTTP2_NV_FLAG_NONE                                                                   \
    }
#define HEAD(method, path)                                                                         \
    FIELD(":method", method), FIELD(":scheme", "http"), FIELD(":path", path),                      \
        FIELD(":authority", "gateway:4000")

struct upload {
    size_t left;
    bool endless; /* holds back the end */
};

static ssize_t read_upload(nghttp2_session *session, int32_t id, uint8_t *out, size_t room,
                           uint32_t *flags, nghttp2_data_source *source, void *user)
{
    struct upload *upload = source->ptr;
    const size_t size = upload->left < room ? upload->left : room;

    (void)session, (void)id, (void)user;
    memset(out, 'u', size);
    upload->left -= size;
    if (size == 0 && upload->endless)
        return NGHTTP2_ERR_DEFERRED;
    if (upload->left == 0 && !upload->endless)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)size;
}

static int32_t ask(const nghttp2_nv *fields, size_t count, struct upload *upload)
{
    const nghttp2_data_provider body = {.source.ptr = upload, .read_callback = read_upload};
    const int32_t id =
        nghttp2_submit_request(client, NULL, fields, count, upload ? &body : NULL, NULL);

    assert_true(id > 0);
    return id;
}

static int32_t get(void)
{
    const nghttp2_nv fields[] = {HEAD("GET", "/v1/models")};

    return ask(fields, sizeof fields / sizeof *fields, NULL);
}

/* The answer's head, and so many chunks of so many bytes. */
static void begin_answer(struct exchange *x, enum answer_framing framing, uint64_t length)
{
    static struct field fields[] = {{{"content-type", 12}, {"text/event-stream", 17}}};

    x->answer.status = 200;
    x->answer.framing = framing;
    x->answer.length = length;
    x->answer.fields = fields;
    x->answer.field_count = 1;
    x->answer.ready = true;
    h2_answer(x);
}

static void feed(struct exchange *x, const char *text, size_t repeated)
{
    const size_t size = strlen(text);
    struct chunk *chunk = chunk_new(size * repeated);

    assert_non_null(chunk);
    for (size_t i = 0; i < repeated; i++)
        memcpy(chunk_data(chunk) + i * size, text, size);
    chunk->size = (uint32_t)(size * repeated);
    rider_feed(&x->rider, chunk);
    h2_answer(x);
}

static void end_answer(struct exchange *x, bool broken)
{
    x->rider.ended = true;
    x->rider.broken = broken;
    h2_answer(x);
}

/* ---- promise 1 ---- */

static void h2_hands_a_request_over_whole(void **state)
{
    const nghttp2_nv fields[] = {HEAD("POST", "/v1/chat/completions?a=b"),
                                 FIELD("x-task-class", "code"), FIELD("content-length", "5000")};
    struct upload upload = {.left = 5000};

    (void)state;
    ask(fields, sizeof fields / sizeof *fields, &upload);
    exchange_bytes();

    const struct seen *seen = exchanges[0];
    assert_true(seen->begun && seen->body_ended && !seen->abandoned);
    assert_int_equal(seen->body_bytes, 5000);
    assert_true(span_equal(seen->x.method, SPAN("POST")));
    assert_true(span_equal(seen->x.target, SPAN("/v1/chat/completions?a=b")));
    assert_true(span_equal(seen->x.path, SPAN("/v1/chat/completions")));
    assert_true(span_equal(seen->host, SPAN("gateway:4000")));
    assert_true(span_equal(seen->custom, SPAN("code")));
}

static void h2_ends_the_body_of_a_request_without_one(void **state)
{
    (void)state;
    get();
    exchange_bytes();

    assert_true(exchanges[0]->begun && exchanges[0]->body_ended);
}

static void h2_tells_who_expects_it_to_continue(void **state)
{
    const nghttp2_nv fields[] = {HEAD("POST", "/v1/chat/completions"),
                                 FIELD("expect", "100-continue")};
    struct upload upload = {.left = 10};

    (void)state;
    const int32_t id = ask(fields, sizeof fields / sizeof *fields, &upload);
    exchange_bytes();

    assert_int_equal(answer_of(id)->interim, 100);
    begin_answer(&exchanges[0]->x, ANSWER_NO_BODY, 0);
    exchange_bytes();
    assert_int_equal(answer_of(id)->status, 200);
}

/* ---- promise 2 ---- */

static void h2_sends_an_answer_of_known_length(void **state)
{
    (void)state;
    const int32_t id = get();
    exchange_bytes();

    begin_answer(&exchanges[0]->x, ANSWER_LENGTH, 11);
    feed(&exchanges[0]->x, "hello world", 1);
    end_answer(&exchanges[0]->x, false);
    sends = 0;
    exchange_bytes();

    const struct answer_seen *answer = answer_of(id);
    assert_int_equal(sends, 1); /* head and body in one piece */
    assert_int_equal(answer->status, 200);
    assert_int_equal(answer->length, 11);
    assert_true(answer->has_date);
    assert_string_equal(answer->text, "hello world");
    assert_true(answer->ended && answer->closed);
    assert_int_equal(answer->reset, NGHTTP2_NO_ERROR);
    assert_true(exchanges[0]->answered && !exchanges[0]->abandoned);
    assert_int_equal(exchanges[0]->x.bytes_out, 11);
    assert_int_equal(h2_open_streams(&conn), 0);
}

static void h2_ends_an_answer_without_body_at_its_head(void **state)
{
    (void)state;
    const int32_t id = get();
    exchange_bytes();

    begin_answer(&exchanges[0]->x, ANSWER_NO_BODY, 0);
    exchange_bytes();

    assert_true(answer_of(id)->ended);
    assert_int_equal(answer_of(id)->length, -1);
    assert_true(exchanges[0]->answered);
}

static void h2_sends_each_event_when_it_comes(void **state)
{
    (void)state;
    const int32_t id = get();
    exchange_bytes();

    begin_answer(&exchanges[0]->x, ANSWER_STREAM, 0);
    exchange_bytes();
    assert_int_equal(answer_of(id)->status, 200);
    feed(&exchanges[0]->x, "data: 1\n\n", 1);
    exchange_bytes();
    assert_string_equal(answer_of(id)->text, "data: 1\n\n");
    feed(&exchanges[0]->x, "data: 2\n\n", 1);
    exchange_bytes();
    assert_string_equal(answer_of(id)->text, "data: 1\n\ndata: 2\n\n");
    assert_int_equal(exchanges[0]->deliveries, 2);
    assert_false(exchanges[0]->answered);
    end_answer(&exchanges[0]->x, false);
    exchange_bytes();

    assert_true(answer_of(id)->ended && exchanges[0]->answered);
}

static void h2_breaks_off_behind_the_data(void **state)
{
    (void)state;
    const int32_t id = get();
    exchange_bytes();

    begin_answer(&exchanges[0]->x, ANSWER_STREAM, 0);
    feed(&exchanges[0]->x, "data: 1\n\n", 1);
    feed(&exchanges[0]->x, "data: {\"error\":{}}\n\n", 1);
    end_answer(&exchanges[0]->x, true);
    exchange_bytes();

    assert_string_equal(answer_of(id)->text, "data: 1\n\ndata: {\"error\":{}}\n\n");
    assert_false(answer_of(id)->ended);
    assert_int_equal(answer_of(id)->reset, NGHTTP2_INTERNAL_ERROR);
    assert_true(exchanges[0]->answered && !exchanges[0]->abandoned);
}

static void h2_breaks_off_when_all_data_has_long_gone(void **state)
{
    (void)state;
    const int32_t id = get();
    exchange_bytes();

    begin_answer(&exchanges[0]->x, ANSWER_STREAM, 0);
    feed(&exchanges[0]->x, "x", 65535); /* the client's whole window */
    exchange_bytes();
    end_answer(&exchanges[0]->x, true);
    exchange_bytes();

    assert_int_equal(answer_of(id)->bytes, 65535);
    assert_int_equal(answer_of(id)->reset, NGHTTP2_INTERNAL_ERROR);
    assert_true(exchanges[0]->answered);
}

static void h2_keeps_what_the_socket_does_not_take(void **state)
{
    (void)state;
    const int32_t id = get();
    exchange_bytes();

    begin_answer(&exchanges[0]->x, ANSWER_STREAM, 0);
    feed(&exchanges[0]->x, "0123456789", 6000);
    end_answer(&exchanges[0]->x, false);
    for (int i = 0; i < 700; i++) {
        wire_room = 100;
        to_client();
        assert_true(alive);
        assert_true(conn.left.size <= WORKER_SCRATCH_BYTES + 16384 + 9);
    }

    assert_int_equal(answer_of(id)->bytes, 60000);
    assert_true(answer_of(id)->ended);
    assert_memory_equal(answer_of(id)->text, "01234567890123456789", 20);
    assert_int_equal(conn.left.size, 0);
}

static void h2_lets_one_stream_pass_another_that_is_not_read(void **state)
{
    (void)state;
    const int32_t slow = get();
    const int32_t quick = get();
    nghttp2_session_set_local_window_size(client, NGHTTP2_FLAG_NONE, 0, 1 << 20);
    exchange_bytes();

    begin_answer(&exchanges[0]->x, ANSWER_STREAM, 0);
    feed(&exchanges[0]->x, "x", 200000);
    exchange_bytes();
    begin_answer(&exchanges[1]->x, ANSWER_LENGTH, 2);
    feed(&exchanges[1]->x, "ok", 1);
    end_answer(&exchanges[1]->x, false);
    exchange_bytes();

    assert_int_equal(answer_of(slow)->bytes, 65535);
    assert_string_equal(answer_of(quick)->text, "ok");
    assert_true(answer_of(quick)->ended);
}

/* ---- promise 3 ---- */

static void h2_refuses_too_many_fields_and_serves_the_next(void **state)
{
    nghttp2_nv fields[4 + 97] = {HEAD("GET", "/v1/models")};

    (void)state;
    for (size_t i = 4; i < sizeof fields / sizeof *fields; i++)
        fields[i] = (nghttp2_nv)FIELD("cookie", "a=b");
    const int32_t large = ask(fields, sizeof fields / sizeof *fields, NULL);
    const int32_t next = get();
    exchange_bytes();

    assert_int_equal(exchanges[0]->refused, ERR_HEADERS_TOO_LARGE);
    assert_false(exchanges[0]->begun);
    assert_int_equal(answer_of(large)->status, 431);
    assert_true(exchanges[1]->begun);
    assert_false(answer_of(next)->closed);
}

static void h2_refuses_too_many_header_bytes(void **state)
{
    static char value[16001];
    nghttp2_nv fields[4 + 5] = {HEAD("GET", "/v1/models")};

    (void)state;
    memset(value, 'v', sizeof value - 1);
    for (size_t i = 4; i < sizeof fields / sizeof *fields; i++)
        fields[i] = (nghttp2_nv)FIELD("x-large", value);
    ask(fields, sizeof fields / sizeof *fields, NULL);
    exchange_bytes();

    assert_int_equal(exchanges[0]->refused, ERR_HEADERS_TOO_LARGE);
    assert_true(exchanges[0]->fields <= 5); /* host and four: the fifth was not stored */
}

static void h2_refuses_a_body_announced_too_large(void **state)
{
    const nghttp2_nv fields[] = {HEAD("POST", "/v1/chat/completions"),
                                 FIELD("content-length", "33554433")};
    struct upload upload = {.left = 1, .endless = true};

    (void)state;
    const int32_t id = ask(fields, sizeof fields / sizeof *fields, &upload);
    exchange_bytes();

    assert_int_equal(answer_of(id)->status, 413);
    assert_int_equal(answer_of(id)->reset, NGHTTP2_NO_ERROR);
    assert_int_equal(exchanges[0]->body_bytes, 0);
}

static void h2_refuses_connect_and_long_paths_and_odd_expectations(void **state)
{
    static char path[9001] = "/";
    const nghttp2_nv connect_fields[] = {FIELD(":method", "CONNECT"), FIELD(":authority", "a:1")};
    struct upload upload = {.left = 1, .endless = true};

    (void)state;
    memset(path + 1, 'p', sizeof path - 2);
    const nghttp2_nv path_fields[] = {HEAD("GET", path)};
    const nghttp2_nv expect_fields[] = {HEAD("GET", "/"), FIELD("expect", "200-maybe")};
    ask(connect_fields, 2, &upload);
    ask(path_fields, 4, NULL);
    ask(expect_fields, 5, NULL);
    exchange_bytes();

    assert_int_equal(exchanges[0]->refused, ERR_NO_METHOD);
    assert_int_equal(exchanges[1]->refused, ERR_PATH_TOO_LONG);
    assert_int_equal(exchanges[2]->refused, ERR_EXPECTATION);
}

static void h2_refuses_hosts_that_are_not_served_here(void **state)
{
    (void)state;
    const nghttp2_nv by_authority[] = {FIELD(":method", "GET"), FIELD(":scheme", "https"),
                                       FIELD(":authority", "other.example"), FIELD(":path", "/")};
    const nghttp2_nv by_host[] = {FIELD(":method", "GET"), FIELD(":scheme", "https"),
                                  FIELD(":path", "/"), FIELD("host", "other.example")};

    ask(by_authority, 4, NULL);
    ask(by_host, 4, NULL);
    exchange_bytes();

    assert_int_equal(exchanges[0]->refused, ERR_MISDIRECTED);
    assert_int_equal(exchanges[1]->refused, ERR_MISDIRECTED);
}

static void h2_resets_what_is_malformed(void **state)
{
    static const struct {
        const char *name, *value;
    } bad[] = {
        {"X-Upper", "case"},      {"x-value", "carriage\rreturn"},
        {"x-space", " before"},   {"host", "another:4000"},
        {"connection", "close"},  {"transfer-encoding", "chunked"},
        {"te", "gzip"},           {"x name", "space"},
        {"content-length", "+5"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        nghttp2_nv fields[] = {HEAD("GET", "/v1/models"), FIELD(bad[i].name, bad[i].value)};
        if (fields[4].name[0] == 'X')
            fields[4].flags |= NGHTTP2_NV_FLAG_NO_COPY_NAME; /* else it would be lowered */
        const int32_t id = ask(fields, sizeof fields / sizeof *fields, NULL);
        exchange_bytes();
        assert_true(alive);
        assert_int_equal(answer_of(id)->reset, NGHTTP2_PROTOCOL_ERROR);
        assert_false(exchanges[i]->begun);
        assert_true(exchanges[i]->abandoned);
    }
    const nghttp2_nv same_host[] = {HEAD("GET", "/v1/models"), FIELD("host", "GATEWAY:4000")};
    ask(same_host, 5, NULL);
    exchange_bytes();
    assert_true(exchanges[exchange_total - 1]->begun);
}

/* ---- promise 4 ---- */

static void h2_abandons_the_exchange_of_a_reset_stream(void **state)
{
    (void)state;
    const int32_t id = get();
    exchange_bytes();

    nghttp2_submit_rst_stream(client, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
    exchange_bytes();

    assert_true(exchanges[0]->abandoned);
    assert_true(alive);
    h2_answer(&exchanges[0]->x); /* too late: nothing happens */
    assert_int_equal(h2_open_streams(&conn), 0);
}

static void h2_ends_a_conn_that_resets_without_end(void **state)
{
    (void)state;
    for (int i = 0; i < 150 && alive; i++) {
        const int32_t id = get();
        exchange_bytes();
        if (!alive)
            break;
        nghttp2_submit_rst_stream(client, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
        exchange_bytes();
    }

    assert_false(alive);
    assert_int_equal(exchange_total, 101); /* the burst, and the one that was too many */
    assert_int_equal(goaways, 1);
    assert_int_equal(goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
}

static void h2_bears_resets_that_come_slowly(void **state)
{
    (void)state;
    for (int i = 0; i < 300; i++) {
        const int32_t id = get();
        exchange_bytes();
        nghttp2_submit_rst_stream(client, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
        exchange_bytes();
        pass_ms(40);
        assert_true(alive);
    }
}

static void h2_ends_a_conn_that_floods_it_with_control_frames(void **state)
{
    (void)state;
    for (int i = 0; i < 20 && alive; i++) {
        for (int k = 0; k < 100; k++)
            nghttp2_submit_ping(client, NGHTTP2_FLAG_NONE, NULL);
        exchange_bytes();
    }

    assert_false(alive);
    assert_int_equal(goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
}

static void h2_knows_window_updates_that_its_data_explains(void **state)
{
    (void)state;
    get();
    exchange_bytes();
    begin_answer(&exchanges[0]->x, ANSWER_STREAM, 0);

    for (int i = 0; i < 4000; i++) {
        feed(&exchanges[0]->x, "data: x\n\n", 1);
        exchange_bytes();
        nghttp2_submit_window_update(client, NGHTTP2_FLAG_NONE, 1, 9);
        nghttp2_submit_window_update(client, NGHTTP2_FLAG_NONE, 0, 9);
        exchange_bytes();
        assert_true(alive);
    }
}

static void h2_refuses_streams_past_what_was_just_abandoned(void **state)
{
    (void)state;
    config.limits_streams_per_conn = 10;
    for (int i = 0; i < 20; i++) {
        const int32_t id = get();
        exchange_bytes();
        nghttp2_submit_rst_stream(client, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
        exchange_bytes();
    }
    const size_t before = exchange_total;
    const int32_t refused = get();
    exchange_bytes();
    assert_int_equal(answer_of(refused)->reset, NGHTTP2_REFUSED_STREAM);
    assert_int_equal(exchange_total, before);

    pass_ms(1000);
    get();
    exchange_bytes();
    assert_int_equal(exchange_total, before + 1);
}

static void h2_closes_an_idle_conn(void **state)
{
    (void)state;
    assert_int_equal(h2_deadline(&conn), worker.now_ns + 300 * NS_PER_S);
    pass_ms(300000);
    assert_false(h2_due(&conn));
}

static void h2_answers_a_body_that_comes_too_slowly(void **state)
{
    const nghttp2_nv fields[] = {HEAD("POST", "/v1/chat/completions")};
    struct upload upload = {.left = 5, .endless = true};

    (void)state;
    const int32_t id = ask(fields, 4, &upload);
    exchange_bytes();
    for (int i = 0; i < 4; i++) {
        pass_ms(1000);
        assert_true(h2_deadline(&conn) <= worker.now_ns);
        assert_true(h2_due(&conn));
    }
    assert_int_equal(exchanges[0]->refused, OK);
    pass_ms(1000);
    assert_true(h2_due(&conn));
    to_client();

    assert_int_equal(exchanges[0]->refused, ERR_SLOW_REQUEST);
    assert_int_equal(answer_of(id)->status, 408);
}

static void h2_gives_up_a_stream_that_is_not_read_and_keeps_the_other(void **state)
{
    (void)state;
    const int32_t stalled = get();
    const int32_t waiting = get();
    exchange_bytes();
    begin_answer(&exchanges[0]->x, ANSWER_STREAM, 0);
    feed(&exchanges[0]->x, "x", 100000);
    exchange_bytes();

    for (int i = 0; i < 63; i++) {
        pass_ms(1000);
        assert_true(h2_due(&conn));
        exchange_bytes(); /* the client answers pings */
        assert_true(alive);
    }

    assert_true(exchanges[0]->abandoned);
    assert_int_equal(exchanges[0]->x.cause, ERR_SLOW_CLIENT);
    assert_int_equal(answer_of(stalled)->reset, NGHTTP2_CANCEL);
    assert_false(answer_of(waiting)->closed);
    assert_false(exchanges[1]->abandoned);
}

static void h2_asks_a_silent_client_whether_it_lives(void **state)
{
    (void)state;
    get();
    exchange_bytes();

    for (int i = 0; i < 30; i++) {
        pass_ms(1000);
        assert_true(h2_due(&conn));
    }
    assert_int_equal(nghttp2_session_mem_recv(client, (uint8_t *)wire, wire_size), wire_size);
    wire_size = 0;
    assert_int_equal(pings, 1);
    for (int i = 0; i < 9; i++) {
        pass_ms(1000);
        assert_true(h2_due(&conn));
    }
    pass_ms(1000);
    assert_false(h2_due(&conn));
}

static void h2_closes_when_the_socket_takes_nothing(void **state)
{
    (void)state;
    get();
    exchange_bytes();
    begin_answer(&exchanges[0]->x, ANSWER_STREAM, 0);
    feed(&exchanges[0]->x, "x", 60000);
    wire_room = 0;
    to_client();
    assert_true(alive);
    assert_true(h2_deadline(&conn) <= worker.now_ns + 60 * NS_PER_S);

    pass_ms(59000);
    assert_true(h2_due(&conn));
    pass_ms(1000);
    assert_false(h2_due(&conn));
}

static void h2_waits_ten_seconds_for_the_settings_to_be_known(void **state)
{
    struct conn other = {.worker = &worker, .io.writable = true};

    (void)state;
    assert_int_equal(h2_open(&other), OK);
    assert_int_equal(h2_deadline(&other), worker.now_ns + 10 * NS_PER_S);
    pass_ms(10000);
    assert_false(h2_due(&other));
    h2_close(&other);
}

/* ---- promise 5 ---- */

static void h2_gives_windows_back_as_the_body_comes(void **state)
{
    const nghttp2_nv fields[] = {HEAD("POST", "/v1/chat/completions")};
    struct upload upload = {.left = 3 << 20};

    (void)state;
    ask(fields, 4, &upload);
    exchange_bytes();

    assert_int_equal(exchanges[0]->body_bytes, 3 << 20);
    assert_true(exchanges[0]->body_ended);
}

static void h2_gives_windows_back_of_bytes_nobody_wants(void **state)
{
    const nghttp2_nv fields[] = {HEAD("POST", "/v1/chat/completions")};
    struct upload upload = {.left = 3 << 20};

    (void)state;
    body_verdict = ERR_TOO_LARGE;
    ask(fields, 4, &upload);
    exchange_bytes();

    assert_true(exchanges[0]->body_bytes < (3 << 20));
    assert_int_equal(upload.left, 0);
}

static void h2_stops_an_upload_that_is_already_answered(void **state)
{
    const nghttp2_nv fields[] = {HEAD("POST", "/v1/chat/completions")};
    struct upload upload = {.left = 1000, .endless = true};

    (void)state;
    const int32_t id = ask(fields, 4, &upload);
    exchange_bytes();
    begin_answer(&exchanges[0]->x, ANSWER_LENGTH, 2);
    feed(&exchanges[0]->x, "no", 1);
    end_answer(&exchanges[0]->x, false);
    exchange_bytes();

    assert_string_equal(answer_of(id)->text, "no");
    assert_true(answer_of(id)->ended && exchanges[0]->answered);
    assert_false(answer_of(id)->closed); /* it has a moment to read that */

    pass_ms(1000);
    assert_true(h2_due(&conn));
    exchange_bytes();
    assert_true(answer_of(id)->closed);
    assert_int_equal(answer_of(id)->reset, NGHTTP2_NO_ERROR);
}

/* ---- promise 6 ---- */

static void h2_drains_in_two_steps_and_ends_with_its_last_stream(void **state)
{
    (void)state;
    const int32_t id = get();
    exchange_bytes();

    h2_drain(&conn);
    exchange_bytes();
    assert_int_equal(goaways, 1);
    assert_int_equal(goaway_last_id, INT32_MAX);
    assert_true(h2_deadline(&conn) <= worker.now_ns + NS_PER_S);
    pass_ms(1000);
    assert_true(h2_due(&conn));
    exchange_bytes();
    assert_int_equal(goaways, 2);
    assert_int_equal(goaway_last_id, id);
    assert_true(alive);
    begin_answer(&exchanges[0]->x, ANSWER_LENGTH, 4);
    feed(&exchanges[0]->x, "done", 1);
    end_answer(&exchanges[0]->x, false);
    exchange_bytes();

    assert_string_equal(answer_of(id)->text, "done");
    assert_false(alive);
}

static void h2_abandons_what_is_open_when_it_closes(void **state)
{
    (void)state;
    get();
    get();
    exchange_bytes();

    h2_close(&conn);

    assert_true(exchanges[0]->abandoned && exchanges[1]->abandoned);
    assert_null(conn.h2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(h2_hands_a_request_over_whole),
        TEST(h2_ends_the_body_of_a_request_without_one),
        TEST(h2_tells_who_expects_it_to_continue),
        TEST(h2_sends_an_answer_of_known_length),
        TEST(h2_ends_an_answer_without_body_at_its_head),
        TEST(h2_sends_each_event_when_it_comes),
        TEST(h2_breaks_off_behind_the_data),
        TEST(h2_breaks_off_when_all_data_has_long_gone),
        TEST(h2_keeps_what_the_socket_does_not_take),
        TEST(h2_lets_one_stream_pass_another_that_is_not_read),
        TEST(h2_refuses_too_many_fields_and_serves_the_next),
        TEST(h2_refuses_too_many_header_bytes),
        TEST(h2_refuses_a_body_announced_too_large),
        TEST(h2_refuses_connect_and_long_paths_and_odd_expectations),
        TEST(h2_refuses_hosts_that_are_not_served_here),
        TEST(h2_resets_what_is_malformed),
        TEST(h2_abandons_the_exchange_of_a_reset_stream),
        TEST(h2_ends_a_conn_that_resets_without_end),
        TEST(h2_bears_resets_that_come_slowly),
        TEST(h2_ends_a_conn_that_floods_it_with_control_frames),
        TEST(h2_knows_window_updates_that_its_data_explains),
        TEST(h2_refuses_streams_past_what_was_just_abandoned),
        TEST(h2_closes_an_idle_conn),
        TEST(h2_answers_a_body_that_comes_too_slowly),
        TEST(h2_gives_up_a_stream_that_is_not_read_and_keeps_the_other),
        TEST(h2_asks_a_silent_client_whether_it_lives),
        TEST(h2_closes_when_the_socket_takes_nothing),
        TEST(h2_waits_ten_seconds_for_the_settings_to_be_known),
        TEST(h2_gives_windows_back_as_the_body_comes),
        TEST(h2_gives_windows_back_of_bytes_nobody_wants),
        TEST(h2_stops_an_upload_that_is_already_answered),
        TEST(h2_drains_in_two_steps_and_ends_with_its_last_stream),
        TEST(h2_abandons_what_is_open_when_it_closes),
    };

    return cmocka_run_group_tests_name("h2", tests, NULL, NULL);
}
