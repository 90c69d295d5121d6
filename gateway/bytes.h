/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/bytes.h: where is the next byte that matters; pure, inline.
 *
 * For:       passing over long runs of plain bytes: 16 at a time where the machine can (SSE2), one
 *            by one elsewhere.
 * Called by: h1.c, scan.c, sse.c, tap.c, ask_prompt.c.
 * Knows not: what the bytes mean. */
#ifndef GATEWAY_BYTES_H
#define GATEWAY_BYTES_H

#include "config/base/vocab.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* Declares a search. stop is true of a byte that ends it; mask gives the same for 16 bytes at once,
 * a vector with all bits set where a byte stops. Searches return end when nothing stops them. */
#ifdef __SSE2__
#define BYTES_SEARCH(name, stop, mask)                                                             \
    static inline const char *name(const char *at, const char *end)                                \
    {                                                                                              \
        for (; end - at >= 16; at += 16) {                                                         \
            const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)at);                  \
            const int hits = _mm_movemask_epi8(mask);                                              \
                                                                                                   \
            if (hits != 0)                                                                         \
                return at + __builtin_ctz((unsigned)hits);                                         \
        }                                                                                          \
        for (; at < end; at++) {                                                                   \
            const unsigned char c = (unsigned char)*at;                                            \
                                                                                                   \
            if (stop)                                                                              \
                break;                                                                             \
        }                                                                                          \
        return at;                                                                                 \
    }
#define BYTES_ARE(c) _mm_cmpeq_epi8(x, _mm_set1_epi8(c))
/* Unsigned x <= 0x1f: x is the smaller one. Signed, bytes of 0x80 and more are below 0x20 too. */
#define BYTES_CONTROL _mm_cmpeq_epi8(_mm_min_epu8(x, _mm_set1_epi8(0x1f)), x)
#define BYTES_CONTROL_OR_HIGH _mm_cmplt_epi8(x, _mm_set1_epi8(0x20))
#define BYTES_EITHER(a, b) _mm_or_si128(a, b)
#else
#define BYTES_SEARCH(name, stop, mask)                                                             \
    static inline const char *name(const char *at, const char *end)                                \
    {                                                                                              \
        for (; at < end; at++) {                                                                   \
            const unsigned char c = (unsigned char)*at;                                            \
                                                                                                   \
            if (stop)                                                                              \
                break;                                                                             \
        }                                                                                          \
        return at;                                                                                 \
    }
#endif

/* clang-format off */

/* What may not stand in a field value: control bytes, tab too, which the caller lets pass. */
BYTES_SEARCH(bytes_find_control, c < 0x20 || c == 0x7f,
             BYTES_EITHER(BYTES_CONTROL, BYTES_ARE(0x7f)))

/* Where plain ASCII inside a JSON string ends: quote, backslash, control bytes, 0x80 and more. */
BYTES_SEARCH(bytes_find_not_plain, c == '"' || c == '\\' || c < 0x20 || c >= 0x80,
             BYTES_EITHER(BYTES_CONTROL_OR_HIGH, BYTES_EITHER(BYTES_ARE('"'), BYTES_ARE('\\'))))

/* The same, but bytes of 0x80 and more pass. */
BYTES_SEARCH(bytes_find_string_stop, c == '"' || c == '\\' || c < 0x20,
             BYTES_EITHER(BYTES_CONTROL, BYTES_EITHER(BYTES_ARE('"'), BYTES_ARE('\\'))))

/* CR or LF. */
BYTES_SEARCH(bytes_find_line_end, c == '\n' || c == '\r',
             BYTES_EITHER(BYTES_ARE('\n'), BYTES_ARE('\r')))

/* clang-format on */

#undef BYTES_SEARCH
#ifdef __SSE2__
#undef BYTES_ARE
#undef BYTES_CONTROL
#undef BYTES_CONTROL_OR_HIGH
#undef BYTES_EITHER
#endif

#endif
