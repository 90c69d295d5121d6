/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/h2.c: see h2.h.
 *
 * For:       frames to exchanges, answers to frames, and a bound on everything that a client can
 *            make us do with few bytes.
 * Called by: conn.c, in the turn; nghttp2's callbacks run inside h2_receive() and h2_flush() alone.
 * Knows not: keys, models, steps.
 *
 * Callbacks are doorbells: they copy, count, submit frames and ring exchanges, which run later in
 * the turn. mem_recv and mem_send are called from h2_receive() and h2_flush() only, so never from
 * inside a callback.
 *
 * A stream's story:
 *   begin_headers   opens it with its exchange; header fields are counted and copied
 *   head_whole      the exchange begins, or is refused
 *   on_data_chunk   DATA goes to the exchange's body, its window is given back at once
 *   h2_answer       the answer's head is submitted; the body is taken from the rider as windows
 *                   allow
 *   on_frame_send   the frame with END_STREAM has gone out: answered, the exchange is let go
 *   on_stream_close with its exchange still there it has lost its client: that is abandoned */
#include "gateway/h2.h"

#include <nghttp2/nghttp2.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/metrics.h"

#define STREAM_WINDOW_BYTES (256 * 1024)
#define CONN_WINDOW_BYTES (1024 * 1024)
#define HEADER_TABLE_BYTES 4096
#define FIELD_OVERHEAD_BYTES 32 /* charged for each field, RFC 9113 section 6.5.2 */
#define PATH_BYTES_MAX 8192

#define SETTINGS_WITHIN_NS (UINT64_C(10) * NS_PER_S) /* the client's acknowledgement of ours */
#define PING_AFTER_NS (UINT64_C(30) * NS_PER_S)      /* of silence with streams open */
#define PING_WITHIN_NS (UINT64_C(10) * NS_PER_S)
#define NOTICE_FOR_NS (UINT64_C(1) * NS_PER_S)   /* between the two GOAWAY frames of a drain */
#define LISTEN_FOR_NS (UINT64_C(1) * NS_PER_S)   /* to a body that was answered before its end */
#define LOOK_LONGEST_NS (UINT64_C(1) * NS_PER_S) /* between two looks at the open streams */
#define LOOK_SHORTEST_NS (UINT64_C(20) * NS_PER_MS)

/* Room for what the client may do for nothing: so much at once, refilled at so much a second. */
struct allowance {
    int64_t burst, per_second;
};

static const struct allowance resets_allowed = {100, 33}; /* streams reset, by either side */
static const struct allowance odd_allowed = {
    1000, 1000};                  /* control frames beyond what the traffic explains */
#define ODD_PER_FRAME_RECEIVED 10 /* control frames that a HEADERS or DATA frame explains */
#define ODD_PER_FRAME_SENT 20 /* a DATA frame of ours: window updates for stream and connection */
#define ODD_CREDIT_MAX 100000
#define ODD_PER_INVALID_FRAME 10

/* What was used of an allowance. Negative: credit. */
struct spending {
    int64_t used;
    uint64_t since_ns; /* refilled up to here */
};

/* One request on one stream. Belongs to the conn's session, from begin_headers to stream_close;
 * kept for the next stream then. */
struct h2_stream {
    struct h2_stream *next, *previous; /* h2->streams; next alone in h2->spare */
    struct exchange *exchange;         /* NULL once it was answered or abandoned */
    int32_t id;
    uint32_t fields;
    size_t header_bytes;
    enum err refused;  /* found while the head is decoded, answered at its end */
    bool began;        /* the head was whole */
    bool expects;      /* 100-continue */
    bool has_priority; /* the client said how urgent it is (RFC 9218) */
    bool reading_body;
    bool head_sent;
    bool broken;           /* reset by us behind a broken answer: told to the end */
    uint64_t answered_ns;  /* before its body was whole: the rest is passed over for a moment */
    struct span authority; /* in the exchange's arena */
    uint64_t body_began_ns, body_moved_ns;
    uint64_t taken_bytes; /* of the answer, by DATA frames */
    uint64_t seen_bytes;  /* taken_bytes at the last look */
    uint64_t stalled_ns;  /* since when nothing was taken that waits; 0: it moves */
    char status[4];
    char length[20];
};

struct h2 {
    nghttp2_session *session;
    struct conn *conn;
    struct h2_stream *streams;
    struct h2_stream *spare;
    uint32_t stream_count;
    uint64_t opened_ns;
    uint64_t received_ns;   /* last bytes from the client */
    uint64_t idle_ns;       /* since when no stream is open */
    uint64_t look_ns;       /* next look at the open streams */
    uint64_t ping_ns;       /* our unanswered PING left; 0: none */
    uint64_t notice_ns;     /* the first GOAWAY of a drain; 0: none, or the second has gone */
    uint64_t head_began_ns; /* a head is under way since; 0: none */
    struct spending resets, odd, abandoned;
    bool acknowledged; /* the client has our SETTINGS */
    bool abused;       /* an allowance is spent */
    bool failed;       /* the session cannot go on */
    bool draining;
};

/* Shared by all sessions of the process, made once. */
static pthread_once_t shared_once = PTHREAD_ONCE_INIT;
static nghttp2_session_callbacks *shared_callbacks;
static nghttp2_option *shared_option;

/* ---- allowances ---- */

/* Takes amount; true: more was used than is allowed. */
static bool spend(struct spending *spending, int64_t amount, const struct allowance *allowance,
                  uint64_t now_ns)
{
    const uint64_t each_ns = NS_PER_S / (uint64_t)allowance->per_second;
    const uint64_t back = (now_ns - spending->since_ns) / each_ns;

    spending->since_ns += back * each_ns;
    if (spending->used > 0)
        spending->used = back < (uint64_t)spending->used ? spending->used - (int64_t)back : 0;
    spending->used += amount;
    return spending->used > allowance->burst;
}

static void earn_odd(struct h2 *h2, int64_t amount)
{
    if (h2->odd.used > -ODD_CREDIT_MAX)
        h2->odd.used -= amount;
}

static void spend_odd(struct h2 *h2, int64_t amount)
{
    if (spend(&h2->odd, amount, &odd_allowed, h2->conn->worker->now_ns))
        h2->abused = true;
}

static void spend_reset(struct h2 *h2)
{
    if (spend(&h2->resets, 1, &resets_allowed, h2->conn->worker->now_ns))
        h2->abused = true;
}

/* Exchanges whose stream has closed under them, about those of the last second. */
static void count_abandoned(struct h2 *h2, int64_t more)
{
    const int64_t limit = h2->conn->worker->config->limits_streams_per_conn;
    const struct allowance second = {limit, limit};

    (void)spend(&h2->abandoned, more, &second, h2->conn->worker->now_ns);
}

/* ---- streams ---- */

/* Time between two looks: a quarter of the shortest deadline that a look judges. */
static uint64_t look_pause_ns(const struct config *config)
{
    int64_t shortest_ms = config->timeouts_head_ms;

    if (config->timeouts_body_progress_ms < shortest_ms)
        shortest_ms = config->timeouts_body_progress_ms;
    if (config->timeouts_body_ms < shortest_ms)
        shortest_ms = config->timeouts_body_ms;
    if (config->timeouts_write_progress_ms < shortest_ms)
        shortest_ms = config->timeouts_write_progress_ms;
    const uint64_t pause_ns = clock_ms_to_ns(shortest_ms) / 4;
    if (pause_ns > LOOK_LONGEST_NS)
        return LOOK_LONGEST_NS;
    return pause_ns < LOOK_SHORTEST_NS ? LOOK_SHORTEST_NS : pause_ns;
}

/* A stream at the head of the list; NULL without memory. */
static struct h2_stream *stream_new(struct h2 *h2, int32_t id, struct exchange *x)
{
    const struct worker *worker = h2->conn->worker;
    struct h2_stream *stream = h2->spare;

    if (stream) {
        h2->spare = stream->next;
    } else {
        stream = malloc(sizeof *stream);
        if (stream == NULL)
            return NULL;
    }
    memset(stream, 0, sizeof *stream);
    stream->id = id;
    stream->exchange = x;
    stream->next = h2->streams;
    if (h2->streams)
        h2->streams->previous = stream;
    h2->streams = stream;
    if (h2->stream_count++ == 0 && h2->look_ns <= worker->now_ns)
        h2->look_ns = worker->now_ns + look_pause_ns(worker->config);
    return stream;
}

static void stream_free(struct h2 *h2, struct h2_stream *stream)
{
    if (stream->previous)
        stream->previous->next = stream->next;
    else
        h2->streams = stream->next;
    if (stream->next)
        stream->next->previous = stream->previous;
    if (--h2->stream_count == 0)
        h2->idle_ns = h2->conn->worker->now_ns;
    stream->next = h2->spare;
    h2->spare = stream;
}

/* The exchange and the stream part; returns the exchange, NULL if they had already. */
static struct exchange *part(struct h2_stream *stream)
{
    struct exchange *x = stream->exchange;

    if (x)
        x->stream = NULL;
    stream->exchange = NULL;
    return x;
}

static void answered(struct h2_stream *stream)
{
    struct exchange *x = part(stream);

    if (x)
        exchange_answered(x);
}

static struct h2_stream *find_stream(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

/* ---- the head of a request ---- */

/* Resets the stream from inside a header callback: decoding goes on, nothing more is told of it. */
static int refuse_stream(nghttp2_session *session, int32_t id, uint32_t code)
{
    (void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, code);
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct h2 *h2 = user;
    struct conn *conn = h2->conn;
    const int64_t limit = conn->worker->config->limits_streams_per_conn;
    const int32_t id = frame->hd.stream_id;

    if (frame->hd.type != NGHTTP2_HEADERS)
        return 0;
    h2->head_began_ns = conn->worker->now_ns;
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    /* A stream that its client reset is closed for nghttp2 while its exchange is still being
     * cleared away, so those of the last second count too (CVE-2023-44487). */
    count_abandoned(h2, 0);
    if (conn->state != CONN_OPEN || h2->stream_count + h2->abandoned.used >= 2 * limit)
        return refuse_stream(session, id, NGHTTP2_REFUSED_STREAM);

    struct exchange *x = exchange_open(conn->worker, conn);
    if (x == NULL)
        return refuse_stream(session, id, NGHTTP2_REFUSED_STREAM);
    struct h2_stream *stream = stream_new(h2, id, x);
    if (stream == NULL) {
        exchange_abandon(x);
        return refuse_stream(session, id, NGHTTP2_REFUSED_STREAM);
    }
    x->stream = stream;
    x->http2 = true;
    (void)nghttp2_session_set_stream_user_data(session, id, stream);
    return 0;
}

/* A copy in the exchange's arena; notes when there is no memory. */
static struct span keep(struct h2_stream *stream, struct span text)
{
    const struct span copy = arena_copy(&stream->exchange->arena, text);

    if (copy.data == NULL)
        stream->refused = ERR_NO_MEMORY;
    return copy;
}

static void take_field(struct h2_stream *stream, struct span name, struct span value)
{
    const enum err err = exchange_field(stream->exchange, name, value);

    if (err != OK)
        stream->refused = err;
}

static void take_path(struct h2_stream *stream, struct span value)
{
    struct exchange *x = stream->exchange;

    if (value.size > PATH_BYTES_MAX) {
        stream->refused = ERR_PATH_TOO_LONG;
        return;
    }
    x->target = keep(stream, value);
    x->path = x->target;
    if (x->target.data) {
        const char *query = memchr(x->target.data, '?', x->target.size);
        if (query)
            x->path.size = (size_t)(query - x->target.data);
    }
}

static void take_pseudo_field(struct h2_stream *stream, struct span name, struct span value)
{
    if (span_equal(name, SPAN(":method"))) {
        stream->exchange->method = keep(stream, value);
    } else if (span_equal(name, SPAN(":path"))) {
        take_path(stream, value);
    } else if (span_equal(name, SPAN(":authority"))) {
        stream->authority = keep(stream, value);
        take_field(stream, SPAN("host"), value);
    }
}

/* Fields that mean something to HTTP/2 itself. true: the exchange is not told of it. */
static bool take_protocol_field(struct h2_stream *stream, struct span name, struct span value)
{
    switch (name.size) {
    case 4:
        return span_equal(name, SPAN("host")) && stream->authority.size > 0;
    case 6:
        if (span_equal(name, SPAN("expect"))) {
            if (span_equal_nocase(value, SPAN("100-continue")))
                stream->expects = true;
            else
                stream->refused = ERR_EXPECTATION;
            return true;
        }
        return false;
    case 8:
        if (span_equal(name, SPAN("priority")))
            stream->has_priority = true;
        return false;
    case 14:
        if (span_equal(name, SPAN("content-length"))) {
            int64_t bytes = 0; /* that these are digits was checked */
            struct exchange *x = stream->exchange;
            const enum err err = span_to_int64(value, &bytes)
                                     ? body_expect(&x->body, x->config, (uint64_t)bytes)
                                     : ERR_TOO_LARGE;
            if (err != OK)
                stream->refused = err;
        }
        return false;
    default:
        return false;
    }
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame,
                     const uint8_t *name_bytes, size_t name_size, const uint8_t *value_bytes,
                     size_t value_size, uint8_t flags, void *user)
{
    const struct h2 *h2 = user;
    const int32_t id = frame->hd.stream_id;
    struct h2_stream *stream = find_stream(session, id);
    const struct span name = {(const char *)name_bytes, name_size};
    const struct span value = {(const char *)value_bytes, value_size};
    (void)flags;

    if (stream == NULL)
        return 0;
    /* One byte on the wire can stand for 4 KiB of a table, thousands of times: count what it stands
     * for, each part of a cookie too, and store nothing once it is too much. */
    stream->header_bytes += name_size + value_size + FIELD_OVERHEAD_BYTES;
    stream->fields++;
    const struct config *config = h2->conn->worker->config;
    if (stream->header_bytes > (uint64_t)config->limits_header_bytes ||
        stream->fields > (uint64_t)config->limits_header_fields) {
        if (stream->began) /* trailers: nothing waits to be told so */
            return refuse_stream(session, id, NGHTTP2_ENHANCE_YOUR_CALM);
        stream->refused = ERR_HEADERS_TOO_LARGE;
    }
    if (stream->began || stream->refused != OK || stream->exchange == NULL)
        return 0;

    if (name_size > 0 && name_bytes[0] == ':') {
        take_pseudo_field(stream, name, value);
        if (span_equal(name, SPAN(":authority")) && !conn_serves(h2->conn, value))
            stream->refused = ERR_MISDIRECTED;
        return 0;
    }
    if (stream->authority.size > 0 && span_equal(name, SPAN("host")) &&
        !span_equal_nocase(value, stream->authority))
        return refuse_stream(session, id, NGHTTP2_PROTOCOL_ERROR);
    if (stream->authority.size == 0 && span_equal(name, SPAN("host")) &&
        !conn_serves(h2->conn, value))
        stream->refused = ERR_MISDIRECTED;
    else if (!take_protocol_field(stream, name, value))
        take_field(stream, name, value);
    return 0;
}

/* nghttp2 would drop the field: a request that loses one means something else, so it is reset. */
static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame,
                             const uint8_t *name, size_t name_size, const uint8_t *value,
                             size_t value_size, uint8_t flags, void *user)
{
    (void)name, (void)name_size, (void)value, (void)value_size, (void)flags, (void)user;
    return refuse_stream(session, frame->hd.stream_id, NGHTTP2_PROTOCOL_ERROR);
}

static void submit_continue(nghttp2_session *session, int32_t id)
{
    static uint8_t name[] = ":status";
    static uint8_t value[] = "100";
    const nghttp2_nv field = {name, value, sizeof name - 1, sizeof value - 1, NGHTTP2_NV_FLAG_NONE};

    (void)nghttp2_submit_headers(session, NGHTTP2_FLAG_NONE, id, NULL, &field, 1, NULL);
}

static void head_whole(struct h2 *h2, struct h2_stream *stream, bool end_stream)
{
    struct exchange *x = stream->exchange;
    const uint64_t now_ns = h2->conn->worker->now_ns;

    stream->began = true;
    if (x == NULL)
        return;
    if (stream->refused == OK && span_equal(x->method, SPAN("CONNECT")))
        stream->refused = ERR_NO_METHOD;
    if (stream->refused != OK) {
        exchange_refuse(x, stream->refused);
        return;
    }
    exchange_begin(x);
    if (end_stream) {
        exchange_body_end(x);
        return;
    }
    stream->reading_body = true;
    stream->body_began_ns = now_ns;
    stream->body_moved_ns = now_ns;
    if (stream->expects)
        submit_continue(h2->session, stream->id);
}

/* ---- the body of a request, and frames at large ---- */

static void body_end(struct h2_stream *stream)
{
    stream->reading_body = false;
    if (stream->exchange && stream->refused == OK)
        exchange_body_end(stream->exchange);
}

static int on_data_chunk(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                         size_t size, void *user)
{
    const struct h2 *h2 = user;
    struct h2_stream *stream = find_stream(session, id);
    (void)flags;

    if (stream && stream->exchange && stream->refused == OK) {
        stream->body_moved_ns = h2->conn->worker->now_ns;
        stream->refused = exchange_body(stream->exchange, (struct span){(const char *)data, size});
        if (stream->refused != OK)
            stream->reading_body = false;
    }
    /* The bytes lie in the body or are not wanted: either way the windows are open again; but more
     * of what follows an early answer is not asked for. */
    if (stream && stream->answered_ns > 0)
        (void)nghttp2_session_consume_connection(session, size);
    else
        (void)nghttp2_session_consume(session, id, size);
    return 0;
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct h2 *h2 = user;
    struct h2_stream *stream;
    const bool end_stream = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;

    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        h2->head_began_ns = 0;
        stream = find_stream(session, frame->hd.stream_id);
        if (stream && !stream->began)
            head_whole(h2, stream, end_stream);
        else if (stream && end_stream)
            body_end(stream);
        break;
    case NGHTTP2_DATA:
        stream = find_stream(session, frame->hd.stream_id);
        if (stream && end_stream)
            body_end(stream);
        break;
    case NGHTTP2_RST_STREAM:
        spend_reset(h2);
        break;
    case NGHTTP2_SETTINGS:
        if (frame->hd.flags & NGHTTP2_FLAG_ACK)
            h2->acknowledged = true;
        break;
    case NGHTTP2_PING:
        if (frame->hd.flags & NGHTTP2_FLAG_ACK)
            h2->ping_ns = 0;
        break;
    default:
        break;
    }
    return 0;
}

/* Frames that cost the client nothing and bring the exchange nothing are counted against those that
 * do. */
static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *header, void *user)
{
    struct h2 *h2 = user;
    (void)session;

    switch (header->type) {
    case NGHTTP2_HEADERS:
        earn_odd(h2, ODD_PER_FRAME_RECEIVED);
        break;
    case NGHTTP2_DATA:
        if (header->length > 0)
            earn_odd(h2, ODD_PER_FRAME_RECEIVED);
        else if ((header->flags & NGHTTP2_FLAG_END_STREAM) == 0)
            spend_odd(h2, 1);
        break;
    case NGHTTP2_RST_STREAM:
    case NGHTTP2_CONTINUATION: /* bounded by nghttp2 for each head */
        break;
    default:
        spend_odd(h2, 1);
        break;
    }
    return 0;
}

static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int code,
                            void *user)
{
    struct h2 *h2 = user;
    (void)session, (void)code;

    if (frame->hd.type == NGHTTP2_HEADERS) {
        h2->head_began_ns = 0;
        metric_add(METRIC_requests_unread_total, 1);
    }
    spend_odd(h2, ODD_PER_INVALID_FRAME);
    return 0;
}

/* Never fails: a fatal answer here would leak the session's memory (CVE-2023-35945). */
static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
    struct h2 *h2 = user;
    struct h2_stream *stream = find_stream(session, id);
    (void)code;

    if (stream == NULL)
        return 0;
    if (stream->broken) {
        answered(stream);
    } else if (stream->exchange) {
        count_abandoned(h2, 1);
        exchange_abandon(part(stream));
    }
    stream_free(h2, stream);
    return 0;
}

/* ---- the answer ---- */

/* Has the whole answer, told as broken, been taken? Then the framing must break. */
static bool is_broken_off(const struct rider *rider)
{
    return rider->ended && rider->broken && rider->cursor == NULL;
}

/* Fills one DATA frame from the rider.
 *
 * nghttp2 asks only when a frame can go out and the frame asked for before is in our output, so a
 * reset from here never overtakes data. */
static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *out, size_t room,
                         uint32_t *out_flags, nghttp2_data_source *source, void *user)
{
    struct h2_stream *stream = source->ptr;
    struct exchange *x = stream->exchange;
    size_t size = 0;
    (void)session, (void)id, (void)user;

    if (x == NULL)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    struct rider *rider = &x->rider;
    while (rider->cursor && size < room) {
        struct chunk *chunk = rider->cursor;
        const size_t left = chunk->size - rider->offset;
        const size_t taken = left < room - size ? left : room - size;

        x->bytes_out += (int64_t)taken;
        if (rider->offset == 0)
            exchange_delivering(x, chunk); /* counted before its first byte leaves */
        memcpy(out + size, chunk_data(chunk) + rider->offset, taken);
        size += taken;
        rider->offset += taken;
        rider->begun = true;
        if (taken == left)
            rider_next(rider);
    }
    stream->taken_bytes += size;
    if (rider->cursor == NULL && rider->ended && !rider->broken)
        *out_flags |= NGHTTP2_DATA_FLAG_EOF;
    else if (size == 0 && is_broken_off(rider)) {
        stream->broken = true;
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* RST_STREAM(INTERNAL_ERROR) */
    } else if (size == 0)
        return NGHTTP2_ERR_DEFERRED;
    return (ssize_t)size;
}

/* Is the value of this field another each time? It would only push useful ones out of HPACK's
 * table. */
static bool is_different_each_time(struct span name)
{
    switch (name.size) {
    case 11:
        return span_equal(name, SPAN("traceparent"));
    case 12:
        return span_equal(name, SPAN("x-request-id"));
    case 14:
        return span_equal(name, SPAN("content-length"));
    case 15:
        return span_equal(name, SPAN("x-tollgate-cost"));
    case 22:
        return span_equal(name, SPAN("x-tollgate-overhead-ms"));
    default:
        return false;
    }
}

/* Names and values are not copied: they lie in the exchange's arena, in the stream or are static,
 * and HPACK reads them when the frame is packed, which happens only while the stream is open. */
static nghttp2_nv field_of(struct span name, struct span value)
{
    uint8_t flags = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE;

    if (is_different_each_time(name))
        flags |= NGHTTP2_NV_FLAG_NO_INDEX;
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name.data, (uint8_t *)(uintptr_t)value.data,
                        name.size, value.size, flags};
}

static struct span write_number(uint64_t number, char *room, size_t room_bytes)
{
    struct text text;

    text_over(&text, room, room_bytes);
    text_number(&text, number);
    return text_span(&text);
}

/* Queues the answer's head. false: it cannot be. */
static bool submit_head(struct h2 *h2, struct h2_stream *stream, struct exchange *x)
{
    const struct answer *answer = &x->answer;
    nghttp2_nv fields[ANSWER_FIELDS_MAX + 3];
    size_t count = 0;
    nghttp2_data_provider body = {.source.ptr = stream, .read_callback = read_body};
    const bool has_body = answer->framing == ANSWER_STREAM ||
                          (answer->framing == ANSWER_LENGTH && answer->length > 0);

    fields[count++] =
        field_of(SPAN(":status"), write_number((uint64_t)answer->status, stream->status, 3));
    for (uint32_t i = 0; i < answer->field_count; i++)
        fields[count++] = field_of(answer->fields[i].name, answer->fields[i].value);
    if (answer->framing == ANSWER_LENGTH)
        fields[count++] =
            field_of(SPAN("content-length"),
                     write_number(answer->length, stream->length, sizeof stream->length));
    fields[count++] = field_of(SPAN("date"), span_of(server_date(x->worker)));

    /* By default nghttp2 serves streams in order, each as long as it has data; incremental ones
     * take turns, so that a large answer does not hold up the tokens of another. */
    if (has_body && !stream->has_priority) {
        const nghttp2_extpri turns = {.urgency = NGHTTP2_EXTPRI_DEFAULT_URGENCY, .inc = 1};
        (void)nghttp2_session_change_extpri_stream_priority(h2->session, stream->id, &turns, 0);
    }
    return nghttp2_submit_response(h2->session, stream->id, fields, count,
                                   has_body ? &body : NULL) == 0;
}

void h2_answer(struct exchange *x)
{
    struct h2_stream *stream = x->stream;

    if (stream == NULL || x->conn == NULL || !x->answer.ready)
        return;
    struct h2 *h2 = x->conn->h2;
    if (!x->answer.sent) {
        x->answer.sent = true;
        stream->reading_body = false;
        if (!submit_head(h2, stream, x))
            (void)nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, stream->id,
                                            NGHTTP2_INTERNAL_ERROR);
        return;
    }
    /* With a window of zero nobody would ask for the rest, and so nobody would break it off. */
    if (stream->head_sent && is_broken_off(&x->rider) && !stream->broken) {
        stream->broken = true;
        (void)nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, stream->id,
                                        NGHTTP2_INTERNAL_ERROR);
        return;
    }
    (void)nghttp2_session_resume_data(h2->session,
                                      stream->id); /* not deferred: it will be asked anyway */
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct h2 *h2 = user;
    const int32_t id = frame->hd.stream_id;
    struct h2_stream *stream;

    switch (frame->hd.type) {
    case NGHTTP2_DATA:
        earn_odd(h2, ODD_PER_FRAME_SENT);
        if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0)
            return 0;
        break;
    case NGHTTP2_HEADERS:
        stream = find_stream(session, id);
        if (stream)
            stream->head_sent = true;
        if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0)
            return 0;
        break;
    case NGHTTP2_RST_STREAM:
        /* A client can make us reset, too (CVE-2025-8671); what a replica broke is not its doing.
         */
        stream = find_stream(session, id);
        if (frame->rst_stream.error_code != NGHTTP2_NO_ERROR && !(stream && stream->broken))
            spend_reset(h2);
        return 0;
    default:
        return 0;
    }
    stream = find_stream(session, id);
    if (stream == NULL)
        return 0;
    answered(stream);
    /* Answered before its body was whole: the rest is not wanted (RFC 9113 section 8.1). A reset at
     * once makes some clients drop the answer (curl 7.88), so they get a moment to read it. */
    if (nghttp2_session_get_stream_remote_close(session, id) == 0)
        stream->answered_ns = h2->conn->worker->now_ns;
    return 0;
}

/* A head that HPACK or nghttp2's bounds refuse must not leave its stream waiting. */
static int on_frame_not_send(nghttp2_session *session, const nghttp2_frame *frame, int code,
                             void *user)
{
    (void)code, (void)user;
    if (frame->hd.type == NGHTTP2_HEADERS && find_stream(session, frame->hd.stream_id))
        (void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                        NGHTTP2_INTERNAL_ERROR);
    return 0;
}

/* ---- the session ---- */

static void make_shared(void)
{
    if (nghttp2_session_callbacks_new(&shared_callbacks) != 0)
        return;
    nghttp2_session_callbacks_set_on_begin_headers_callback(shared_callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(shared_callbacks, on_header);
    nghttp2_session_callbacks_set_on_invalid_header_callback(shared_callbacks, on_invalid_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(shared_callbacks, on_data_chunk);
    nghttp2_session_callbacks_set_on_frame_recv_callback(shared_callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_begin_frame_callback(shared_callbacks, on_begin_frame);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(shared_callbacks,
                                                                 on_invalid_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(shared_callbacks, on_stream_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(shared_callbacks, on_frame_send);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(shared_callbacks, on_frame_not_send);

    if (nghttp2_option_new(&shared_option) != 0)
        return;
    nghttp2_option_set_no_auto_window_update(shared_option, 1);
    nghttp2_option_set_max_deflate_dynamic_table_size(shared_option, HEADER_TABLE_BYTES);
}

/* Our SETTINGS, the first frame. */
static bool submit_settings(struct h2 *h2, const struct config *config)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, (uint32_t)config->limits_streams_per_conn},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW_BYTES},
        {NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, HEADER_TABLE_BYTES},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)config->limits_header_bytes},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
    };

    return nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, settings,
                                   sizeof settings / sizeof *settings) == 0 &&
           nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, 0,
                                                 CONN_WINDOW_BYTES) == 0;
}

enum err h2_open(struct conn *conn)
{
    struct h2 *h2 = calloc(1, sizeof *h2);
    const uint64_t now_ns = conn->worker->now_ns;

    if (h2 == NULL)
        return ERR_NO_MEMORY;
    h2->conn = conn;
    h2->opened_ns = h2->received_ns = h2->idle_ns = now_ns;
    h2->resets.since_ns = h2->odd.since_ns = h2->abandoned.since_ns = now_ns;
    (void)pthread_once(&shared_once, make_shared);
    if (shared_callbacks == NULL || shared_option == NULL ||
        nghttp2_session_server_new2(&h2->session, shared_callbacks, h2, shared_option) != 0) {
        free(h2);
        return ERR_NO_MEMORY;
    }
    if (!submit_settings(h2, conn->worker->config)) {
        nghttp2_session_del(h2->session);
        free(h2);
        return ERR_NO_MEMORY;
    }
    conn->h2 = h2;
    return OK;
}

void h2_close(struct conn *conn)
{
    struct h2 *h2 = conn->h2;

    if (h2 == NULL)
        return;
    conn->h2 = NULL;
    while (h2->streams) {
        struct exchange *x = part(h2->streams);
        if (x)
            exchange_abandon(x);
        stream_free(h2, h2->streams);
    }
    nghttp2_session_del(h2->session);
    while (h2->spare) {
        struct h2_stream *stream = h2->spare;
        h2->spare = stream->next;
        free(stream);
    }
    free(h2);
}

bool h2_receive(struct conn *conn, struct span bytes)
{
    struct h2 *h2 = conn->h2;

    h2->received_ns = conn->worker->now_ns;
    h2->ping_ns = 0;
    const ssize_t taken =
        nghttp2_session_mem_recv(h2->session, (const uint8_t *)bytes.data, bytes.size);
    if (taken < 0) {
        h2->failed = true;
        return false;
    }
    return true;
}

/* Ends a session whose client has spent an allowance; what is under way is given up. */
static void end_abused(struct h2 *h2)
{
    if (h2->abused &&
        nghttp2_session_terminate_session(h2->session, NGHTTP2_ENHANCE_YOUR_CALM) != 0)
        h2->failed = true;
    h2->abused = false;
}

/* Sends pieces once; what the socket does not take is kept in conn->left. false: the conn has
 * failed. */
static bool send_pieces(struct conn *conn, struct iovec *pieces, int count)
{
    size_t sent = 0;
    size_t total = 0;
    const enum io_result result = io_send(&conn->io, pieces, count, &sent);

    if (result != IO_DONE && result != IO_AGAIN)
        return false;
    for (int i = 0; i < count; i++)
        total += pieces[i].iov_len;
    conn->progress_ns = conn->worker->now_ns; /* bytes moved, or they begin to wait */
    metric_add(METRIC_bytes_out_total, (int64_t)sent);
    if (sent == total)
        return true;

    for (int i = 0; i < count; i++) {
        const size_t skipped = sent < pieces[i].iov_len ? sent : pieces[i].iov_len;
        const struct span rest = {(char *)pieces[i].iov_base + skipped,
                                  pieces[i].iov_len - skipped};
        if (rest.size > 0 && !buffer_append(&conn->left, rest))
            return false;
        sent -= skipped;
    }
    return true;
}

/* Sends what the socket did not take before. false: the conn has failed. */
static bool send_left(struct conn *conn)
{
    struct iovec piece = {conn->left.data + conn->left_at, conn->left.size - conn->left_at};
    size_t sent = 0;
    const enum io_result result = io_send(&conn->io, &piece, 1, &sent);

    if (result != IO_DONE && result != IO_AGAIN)
        return false;
    if (sent > 0) {
        conn->progress_ns = conn->worker->now_ns;
        metric_add(METRIC_bytes_out_total, (int64_t)sent);
    }
    conn->left_at += sent;
    if (conn->left_at == conn->left.size) {
        buffer_free(&conn->left);
        conn->left_at = 0;
    }
    return true;
}

/* Sends what the session has, until it has no more or the socket takes no more. */
static bool send_frames(struct conn *conn)
{
    struct h2 *h2 = conn->h2;
    char *out = conn->worker->out;
    size_t gathered = 0;

    while (conn->left.size == 0 && conn->io.writable) {
        const uint8_t *frame = NULL;
        const ssize_t size = nghttp2_session_mem_send(h2->session, &frame);

        if (size < 0)
            return false;
        end_abused(h2);
        if (size > 0 && (size_t)size <= WORKER_SCRATCH_BYTES - gathered) {
            memcpy(out + gathered, frame, (size_t)size);
            gathered += (size_t)size;
            continue;
        }
        struct iovec pieces[] = {{out, gathered}, {(void *)(uintptr_t)frame, (size_t)size}};
        if (gathered + (size_t)size > 0 && !send_pieces(conn, pieces, size > 0 ? 2 : 1))
            return false;
        gathered = 0;
        if (size == 0)
            break;
    }
    return true;
}

bool h2_flush(struct conn *conn)
{
    struct h2 *h2 = conn->h2;

    end_abused(h2);
    if (conn->left.size > 0 && !send_left(conn))
        return false;
    if (!send_frames(conn) || h2->failed)
        return false;
    return conn->left.size > 0 || io_has_unsent(&conn->io) ||
           nghttp2_session_want_read(h2->session) || nghttp2_session_want_write(h2->session);
}

void h2_drain(struct conn *conn)
{
    struct h2 *h2 = conn->h2;

    if (h2->draining)
        return;
    h2->draining = true;
    /* Requests that cross the notice on the wire are still served: the last id follows a second
     * later. */
    (void)nghttp2_submit_shutdown_notice(h2->session);
    h2->notice_ns = conn->worker->now_ns;
}

/* ---- deadlines ---- */

uint64_t h2_deadline(const struct conn *conn)
{
    const struct h2 *h2 = conn->h2;
    const struct config *config = conn->worker->config;
    uint64_t at_ns = h2->stream_count > 0
                         ? h2->look_ns
                         : h2->idle_ns + clock_ms_to_ns(config->timeouts_idle_h2_ms);

#define NOT_AFTER(ns) (at_ns = (ns) < at_ns ? (ns) : at_ns)
    if (!h2->acknowledged)
        NOT_AFTER(h2->opened_ns + SETTINGS_WITHIN_NS);
    if (conn->left.size > 0 || io_has_unsent(&conn->io))
        NOT_AFTER(conn->progress_ns + clock_ms_to_ns(config->timeouts_write_progress_ms));
    if (h2->head_began_ns > 0)
        NOT_AFTER(h2->head_began_ns + clock_ms_to_ns(config->timeouts_head_ms));
    if (h2->notice_ns > 0)
        NOT_AFTER(h2->notice_ns + NOTICE_FOR_NS);
#undef NOT_AFTER
    return at_ns;
}

/* A request body that comes too slowly is answered. */
static void look_at_body(struct h2_stream *stream, const struct config *config, uint64_t now_ns)
{
    if (!stream->reading_body || stream->exchange == NULL || stream->exchange->answer.ready)
        return;
    if (now_ns - stream->body_moved_ns < clock_ms_to_ns(config->timeouts_body_progress_ms) &&
        now_ns - stream->body_began_ns < clock_ms_to_ns(config->timeouts_body_ms))
        return;
    stream->reading_body = false;
    stream->refused = ERR_SLOW_REQUEST;
    exchange_refuse(stream->exchange, ERR_SLOW_REQUEST);
}

/* One that still sends its body although it has had its answer is told that nobody listens. */
static void look_at_rest(struct h2 *h2, struct h2_stream *stream, uint64_t now_ns)
{
    if (stream->answered_ns == 0 || now_ns - stream->answered_ns < LISTEN_FOR_NS)
        return;
    stream->answered_ns = now_ns;
    (void)nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_NO_ERROR);
}

/* A stream whose client opens no window for the answer that waits is given up; others go on. */
static void look_at_answer(struct h2 *h2, struct h2_stream *stream, const struct config *config,
                           uint64_t now_ns)
{
    struct exchange *x = stream->exchange;
    const bool waits = x && x->answer.sent && (x->rider.cursor || x->rider.ended);
    const bool moved = stream->taken_bytes != stream->seen_bytes;

    stream->seen_bytes = stream->taken_bytes;
    if (!waits || moved) {
        stream->stalled_ns = 0;
        return;
    }
    if (stream->stalled_ns == 0) {
        stream->stalled_ns = now_ns;
        return;
    }
    if (now_ns - stream->stalled_ns < clock_ms_to_ns(config->timeouts_write_progress_ms))
        return;
    if (x->cause == OK)
        x->cause = ERR_SLOW_CLIENT;
    (void)nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_CANCEL);
}

static void look(struct h2 *h2, const struct config *config, uint64_t now_ns)
{
    h2->look_ns = now_ns + look_pause_ns(config);
    for (struct h2_stream *stream = h2->streams; stream; stream = stream->next) {
        look_at_body(stream, config, now_ns);
        look_at_answer(h2, stream, config, now_ns);
        look_at_rest(h2, stream, now_ns);
    }
    if (h2->ping_ns == 0 && now_ns - h2->received_ns >= PING_AFTER_NS && h2->conn->left.size == 0 &&
        nghttp2_submit_ping(h2->session, NGHTTP2_FLAG_NONE, NULL) == 0)
        h2->ping_ns = now_ns;
}

bool h2_due(struct conn *conn)
{
    struct h2 *h2 = conn->h2;
    const struct config *config = conn->worker->config;
    const uint64_t now_ns = conn->worker->now_ns;
    uint32_t end_code = NGHTTP2_NO_ERROR;
    bool end = false;

    if ((conn->left.size > 0 || io_has_unsent(&conn->io)) &&
        now_ns >= conn->progress_ns + clock_ms_to_ns(config->timeouts_write_progress_ms))
        return false;
    if (h2->ping_ns > 0 && now_ns >= h2->ping_ns + PING_WITHIN_NS)
        return false;
    if (!h2->acknowledged && now_ns >= h2->opened_ns + SETTINGS_WITHIN_NS) {
        end = true;
        end_code = NGHTTP2_SETTINGS_TIMEOUT;
    } else if (h2->head_began_ns > 0 &&
               now_ns >= h2->head_began_ns + clock_ms_to_ns(config->timeouts_head_ms)) {
        end = true;
        end_code = NGHTTP2_ENHANCE_YOUR_CALM;
    } else if (h2->stream_count == 0 &&
               now_ns >= h2->idle_ns + clock_ms_to_ns(config->timeouts_idle_h2_ms)) {
        end = true;
    }
    if (end) {
        if (nghttp2_session_terminate_session(h2->session, end_code) != 0)
            return false;
        return h2_flush(conn);
    }
    if (h2->notice_ns > 0 && now_ns >= h2->notice_ns + NOTICE_FOR_NS) {
        h2->notice_ns = 0;
        (void)nghttp2_submit_goaway(h2->session, NGHTTP2_FLAG_NONE,
                                    nghttp2_session_get_last_proc_stream_id(h2->session),
                                    NGHTTP2_NO_ERROR, NULL, 0);
    }
    if (h2->stream_count > 0 && now_ns >= h2->look_ns)
        look(h2, config, now_ns);
    return h2_flush(conn);
}

uint32_t h2_open_streams(const struct conn *conn)
{
    return conn->h2 ? conn->h2->stream_count : 0;
}
