/* SPDX-License-Identifier: Apache-2.0 */
/* bench/load_h2.c: HTTP/2 from the client's side, with prior knowledge.            (nghttp2)
 *
 * For:       many requests at a time on a link; all that it has to say in a turn leaves in one
 *            write.
 * Called by: load_client.c (also part of build/soak).
 * Knows not: sockets, what answers mean. */
#include <signal.h>
#include <nghttp2/nghttp2.h>
#include <stdlib.h>

#include "bench/load_client.h"

enum { OUT_BYTES = 256 * 1024, CONNECTION_WINDOW = 16 * 1024 * 1024 };

struct h2 {
    nghttp2_session *session;
};

static nghttp2_session_callbacks *callbacks;
static nghttp2_option *options;

static struct call *call_of(nghttp2_session *session, int32_t stream_id)
{
    return nghttp2_session_get_stream_user_data(session, stream_id);
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_bytes, const uint8_t *value, size_t value_bytes, uint8_t flags,
                     void *user)
{
    struct call *call = call_of(session, frame->hd.stream_id);

    (void)flags;
    (void)user;
    if (call == NULL)
        return 0;
    if (name_bytes == 7 && memcmp(name, ":status", 7) == 0 && value_bytes == 3)
        call->answer.status = (value[0] - '0') * 100 + (value[1] - '0') * 10 + (value[2] - '0');
    else
        answer_take_field(&call->answer, (struct text){(const char *)name, name_bytes},
                          (struct text){(const char *)value, value_bytes});
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *bytes,
                   size_t count, void *user)
{
    struct link *link = user;
    struct call *call = call_of(session, stream_id);

    (void)flags;
    if (call == NULL) {
        nghttp2_session_consume(session, stream_id, count);
        return 0;
    }
    answer_take_body(&call->answer, (const char *)bytes, count, link->client->now_ns);
    if (call->paused)
        call->kept_back += count;
    else
        nghttp2_session_consume(session, stream_id, count);
    if (link->client->call_progress != NULL)
        link->client->call_progress(call);
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t error_code,
                           void *user)
{
    struct call *call = call_of(session, stream_id);

    (void)user;
    if (call == NULL)
        return 0;
    if (call->kept_back > 0)
        nghttp2_session_consume_connection(session, call->kept_back);
    call->kept_back = 0;
    call_end(call, error_code == NGHTTP2_NO_ERROR && call->answer.status != 0 ? ENDING_WHOLE
                                                                              : ENDING_CUT);
    return 0;
}

static bool prepare_callbacks(void)
{
    if (callbacks != NULL)
        return true;
    if (nghttp2_session_callbacks_new(&callbacks) != 0 || nghttp2_option_new(&options) != 0)
        return false;
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_option_set_no_auto_window_update(options, 1);
    return true;
}

bool h2_open(struct link *link)
{
    nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, link->client->h2_window},
    };

    if (!prepare_callbacks())
        return false;
    link->h2 = calloc(1, sizeof *link->h2);
    if (link->h2 == NULL)
        return false;
    if (nghttp2_session_client_new2(&link->h2->session, callbacks, link, options) != 0 ||
        nghttp2_submit_settings(link->h2->session, NGHTTP2_FLAG_NONE, settings, 2) != 0 ||
        nghttp2_session_set_local_window_size(link->h2->session, NGHTTP2_FLAG_NONE, 0,
                                              CONNECTION_WINDOW) != 0) {
        h2_close(link);
        return false;
    }
    return true;
}

void h2_close(struct link *link)
{
    if (link->h2 == NULL)
        return;
    nghttp2_session_del(link->h2->session);
    free(link->h2);
    link->h2 = NULL;
}

static ssize_t read_body(nghttp2_session *session, int32_t stream_id, uint8_t *to, size_t room,
                         uint32_t *flags, nghttp2_data_source *source, void *user)
{
    struct call *call = call_of(session, stream_id);

    (void)source;
    (void)user;
    if (call == NULL)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    size_t count = call->body.bytes - call->body_sent;
    if (count > room)
        count = room;
    call_copy_body(call, call->body_sent, count, (char *)to);
    call->body_sent += count;
    if (call->body_sent == call->body.bytes)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)count;
}

static nghttp2_nv pair(struct text name, struct text value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name.at, (uint8_t *)(uintptr_t)value.at, name.bytes,
                        value.bytes, NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

bool h2_start(struct link *link, struct call *call)
{
    const struct form *form = call->form;
    nghttp2_data_provider body = {.read_callback = read_body};
    nghttp2_nv fields[FIELDS_MOST + 4];
    size_t count = 0;

    fields[count++] = pair(TEXT(":method"), form->method);
    fields[count++] = pair(TEXT(":scheme"), link->tls != NULL ? TEXT("https") : TEXT("http"));
    fields[count++] = pair(TEXT(":authority"), form->authority);
    fields[count++] = pair(TEXT(":path"), form->path);
    for (size_t i = 0; i < form->field_count; i++)
        fields[count++] = pair(form->fields[i].name, form->fields[i].value);
    call->stream_id = nghttp2_submit_request(link->h2->session, NULL, fields, count,
                                             call->body.bytes > 0 ? &body : NULL, call);
    return call->stream_id >= 0;
}

void h2_cancel(struct link *link, struct call *call)
{
    nghttp2_session *session = link->h2->session;

    nghttp2_session_set_stream_user_data(session, call->stream_id, NULL);
    if (call->kept_back > 0)
        nghttp2_session_consume_connection(session, call->kept_back);
    call->kept_back = 0;
    nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, call->stream_id, NGHTTP2_CANCEL);
}

void h2_pay_back(struct link *link, struct call *call)
{
    if (call->kept_back > 0)
        nghttp2_session_consume(link->h2->session, call->stream_id, call->kept_back);
    call->kept_back = 0;
}

bool h2_take(struct link *link, const char *bytes, size_t count)
{
    nghttp2_session *session = link->h2->session;

    if (nghttp2_session_mem_recv(session, (const uint8_t *)bytes, count) < 0)
        return false;
    return nghttp2_session_want_read(session) || nghttp2_session_want_write(session);
}

bool h2_fill(struct link *link)
{
    nghttp2_session *session = link->h2->session;
    const uint8_t *bytes;

    while (link->out.count < OUT_BYTES) {
        ssize_t count = nghttp2_session_mem_send(session, &bytes);
        if (count < 0)
            return false;
        if (count == 0)
            break;
        buffer_add(&link->out, (const char *)bytes, (size_t)count);
    }
    return link->out.count > 0 || nghttp2_session_want_read(session) ||
           nghttp2_session_want_write(session);
}

/* nghttp2 tells of streams that close by themselves only. */
void h2_end_calls(struct link *link)
{
    nghttp2_session *session = link->h2->session;
    int32_t next = (int32_t)nghttp2_session_get_next_stream_id(session);

    for (int32_t stream_id = 1; stream_id < next && link->running > 0; stream_id += 2) {
        struct call *call = call_of(session, stream_id);
        if (call == NULL)
            continue;
        nghttp2_session_set_stream_user_data(session, stream_id, NULL);
        call->kept_back = 0;
        call_end(call, ENDING_CUT);
    }
}
