// Inflate, for compressed sitemaps.
#pragma once
#include <zlib.h>

// `inflateInit2` is a macro, which Swift does not see.
static inline int megaton_inflate_gzip(z_stream *stream) { return inflateInit2(stream, 16 + MAX_WBITS); }
