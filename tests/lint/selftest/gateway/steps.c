/* lint: spdx: here the licence is missing, and the head names another file */
/* gateway/step.c: lint: head */
#include <event2/event.h>     /* lint: library */
#include <nghttp2/nghttp2.h> /* lint: library */
#include <openssl/evp.h>     /* lint: library */
#include <zlib.h>            /* lint: library */

#include "config/config.h"
#include "gateway/conn.h"
#include "meter/meter.h"
#include "meter/price.h"     /* lint: door */
#include "tests/fake/http.h" /* lint: arrow */
