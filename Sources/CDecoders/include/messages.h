// What libvips and its codecs say of one image, apart from what they say of others at the same time.
#pragma once
#include <stddef.h>

/// Errors and warnings of one image's decoding: the first ones, within a bound. Counted references; any thread.
typedef struct megaton_messages megaton_messages;

/// NULL if there is no memory.
megaton_messages *_Nullable megaton_messages_new(void);
void megaton_messages_unref(megaton_messages *_Nonnull messages);

/// From now on whatever libvips says on the calling thread goes there; with NULL it goes where it always went. Returns
/// the ones before, which the caller enters again when it is done. The caller keeps a reference meanwhile.
megaton_messages *_Nullable megaton_messages_enter(megaton_messages *_Nullable messages);

/// Those of the calling thread.
megaton_messages *_Nullable megaton_messages_current(void);

/// A copy of the lines, as many as fit, with a zero at the end. Returns how many bytes there are without it.
size_t megaton_messages_errors(megaton_messages *_Nonnull messages, char *_Nonnull text, size_t capacity);
size_t megaton_messages_warnings(megaton_messages *_Nonnull messages, char *_Nonnull text, size_t capacity);

/// The same image (a VipsImage) for a sink: the threads on which libvips computes it enter the messages of the thread
/// that calls this, if it has any. Returns 0 and a new reference, or -1.
int megaton_messages_tap(void *_Nonnull image, void *_Nullable *_Nonnull out);

/// Takes GLib's warnings of libvips out of the standard error: they go to the thread's messages, or nowhere.
void megaton_messages_start(void);
