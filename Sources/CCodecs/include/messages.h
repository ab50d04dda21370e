// Messages of libvips and its codecs about one image, separate from those about other images at the same time.
#pragma once
#include <stddef.h>

/// The first errors and warnings of one image's decoding, up to a size limit. Reference-counted; may be used from any
/// thread.
typedef struct megaton_messages megaton_messages;

/// Returns NULL if there is no memory.
megaton_messages *_Nullable megaton_messages_new(void);
void megaton_messages_unref(megaton_messages *_Nonnull messages);

/// Directs libvips' messages on the calling thread to these messages; NULL directs them to libvips' own buffer again.
/// Returns the previous ones, which the caller must enter again afterwards. The caller keeps its reference meanwhile.
megaton_messages *_Nullable megaton_messages_enter(megaton_messages *_Nullable messages);

/// The messages of the calling thread, or NULL.
megaton_messages *_Nullable megaton_messages_current(void);

/// Copies the lines, as many as fit, and adds a terminating zero. Returns the number of bytes without the zero.
size_t megaton_messages_errors(megaton_messages *_Nonnull messages, char *_Nonnull text, size_t capacity);
size_t megaton_messages_warnings(megaton_messages *_Nonnull messages, char *_Nonnull text, size_t capacity);

/// Wraps an image (a VipsImage) for a sink: threads on which libvips computes it use the messages of the calling
/// thread, if it has any. Returns 0 and a new reference, or -1.
int megaton_messages_tap(void *_Nonnull image, void *_Nullable *_Nonnull out);

/// Redirects libvips' GLib warnings from standard error to the thread's messages; drops them if it has none.
void megaton_messages_start(void);
