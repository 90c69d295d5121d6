/* SPDX-License-Identifier: Apache-2.0 */
/* bench/load_client.h: connections to a server and the requests on them, from one thread.
 *
 * For:       the load and soak clients: many connections, HTTP/1.1 or HTTP/2 with prior knowledge,
 *            or either by TLS and ALPN; one epoll.
 * Called by: load.c, the soak client; load_h1.c and load_h2.c are its two protocols, load_tls.c
 *            stands below them.
 * Knows not: why a request is made.
 *
 *     client_init(&client, &address);        then set the three hooks
 *     link_open(&link, &client, use_h2);     once; again after link_lost
 *     call_start(&call, &link, &form, body, counter_at, counter);
 *     client_turn(&client, timeout_ns);      until done; hooks run inside
 *
 * Hooks may start and abort calls, on any link, but open no link but in link_lost. */
#ifndef LOAD_CLIENT_H
#define LOAD_CLIENT_H

#include <netinet/in.h>

#include "bench/load_answer.h"
#include "bench/load_tls.h"

enum { FIELDS_MOST = 24, COUNTER_DIGITS = 10, NO_COUNTER = -1 };

struct field {
    struct text name; /* lower case */
    struct text value;
};

/* Everything of a request but its body; made once for many, or for one. Borrows the texts it is
 * made of. */
struct form {
    struct text method;
    struct text path;
    struct text authority;
    struct field fields[FIELDS_MOST];
    size_t field_count;
    char length_text[24];
    struct buffer head; /* the same as an HTTP/1.1 head */
};

/* Fields are added by the caller between the two. */
void form_begin(struct form *form, struct text method, struct text authority, struct text path);
void form_add(struct form *form, struct text name, struct text value);
void form_finish(struct form *form, size_t body_bytes);
void form_fini(struct form *form);

enum ending {
    ENDING_WHOLE, /* the message ended as it should */
    ENDING_CUT,   /* the connection or the stream ended before */
};

struct link;

/* One request under way. All zero but `answer.delivery` is good before the first call_start(). */
struct call {
    struct link *link; /* NULL: not under way */
    const struct form *form;
    struct text body; /* borrowed until the call ends */
    long counter_at;  /* where COUNTER_DIGITS digits stand in for `counter`; NO_COUNTER: nowhere */
    uint64_t counter;
    size_t body_sent;  /* HTTP/2 */
    int32_t stream_id; /* HTTP/2 */
    bool paused; /* its bytes are left unread (HTTP/1.1) or their window is kept back (HTTP/2) */
    size_t kept_back; /* HTTP/2: bytes whose window is owed */
    struct answer answer;
};

enum h1_state {
    H1_HEAD,
    H1_LENGTH,
    H1_CHUNK_SIZE,
    H1_CHUNK,
    H1_CHUNK_END,
    H1_TRAILER,
    H1_UNTIL_CLOSE
};

struct h2;

struct link {
    struct client *client;
    int fd;           /* -1: closed */
    bool dirty;       /* in the list of those that have something to send */
    bool lost;        /* in the list of those whose program must hear of it */
    bool unread;      /* bytes were left in the socket while paused */
    bool unread_end;  /* and the server has closed behind them */
    unsigned running; /* calls under way */
    struct link *next_dirty;
    struct link *next_lost;
    struct buffer out; /* to be sent; with TLS, to be sealed */
    size_t out_at;
    struct tls_link *tls; /* NULL: none */
    /* HTTP/1.1 */
    struct call *call;
    enum h1_state state;
    uint64_t left; /* body or chunk bytes to come */
    bool close_after;
    struct buffer in; /* a line or head that has come in part */
    /* HTTP/2; NULL on an HTTP/1.1 link */
    struct h2 *h2;
};

struct client {
    int epoll_fd;
    uint64_t now_ns; /* CLOCK_MONOTONIC of this turn */
    struct sockaddr_in address;
    unsigned sources; /* local addresses 127.0.0.1 and up; 0: the kernel's choice */
    unsigned next_source;
    uint32_t h2_window; /* bytes of a stream that may be under way */
    SSL_CTX *tls;       /* NULL: no TLS */
    bool tls_resume;    /* a link tries the session of its last connection */
    uint64_t handshakes;
    uint64_t resumed;        /* of them */
    const char *tls_problem; /* of the last connection that broke; NULL: none */
    struct link *dirty;
    struct link *lost;
    void (*call_progress)(struct call *call); /* body bytes were read; NULL: not wanted */
    void (*call_ended)(struct call *call, enum ending ending);
    void (*link_lost)(struct link *link); /* its calls have ended before; it may be opened again */
};

/* Raises the limit of descriptors, too. false: no epoll. */
bool client_init(struct client *client, const struct sockaddr_in *address);
void client_read_clock(struct client *client);

/* Links opened from now on speak TLS; `resume` shortens the handshake of a link that is opened
 * again. false: OpenSSL refuses. */
bool client_use_tls(struct client *client, bool resume);

/* Sends what is due, waits at most timeout_ns (-1: for ever), handles what came. false: a signal
 * came. */
bool client_turn(struct client *client, int64_t timeout_ns, const sigset_t *signals);

/* Begins to connect; false with errno when it cannot. */
bool link_open(struct link *link, struct client *client, bool use_h2);

/* Closes without a word to the program; calls on it are forgotten. reset: RST in place of FIN. */
void link_close(struct link *link, bool reset);
void link_fini(struct link *link);

/* Closes at the end of the turn and reports the link as lost. No call may be under way. */
void link_mark_lost(struct link *link);

/* Starts a request. An HTTP/1.1 link bears one at a time. false: the link bears no more. */
bool call_start(struct call *call, struct link *link, const struct form *form, struct text body,
                long counter_at, uint64_t counter);

/* Drops a call: the stream is cancelled, an HTTP/1.1 link is closed and reported as lost. No
 * call_ended comes. */
void call_abort(struct call *call);

/* Stops or goes on to read the answer. */
void call_pause(struct call *call, bool paused);

/* ---- between the files of the client ---- */

void link_mark_dirty(struct link *link);
void call_end(struct call *call, enum ending ending);

/* Body bytes [at, at + count) with the counter in its place. */
void call_copy_body(const struct call *call, size_t at, size_t count, char *to);

void h1_start(struct link *link, struct call *call);
/* Bytes that came; 0 bytes: the server closed. */
void h1_take(struct link *link, const char *bytes, size_t count);

bool h2_open(struct link *link);
void h2_close(struct link *link);
bool h2_start(struct link *link, struct call *call);
void h2_cancel(struct link *link, struct call *call);
void h2_pay_back(struct link *link, struct call *call);
/* false: the connection is of no more use. */
bool h2_take(struct link *link, const char *bytes, size_t count);
/* Moves what the session wants to say to link->out. false: as above. */
bool h2_fill(struct link *link);
/* Ends all calls. */
void h2_end_calls(struct link *link);

#endif
