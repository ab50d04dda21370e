// libcurl's setopt is variadic, which Swift cannot call: one wrapper per type of argument.
#pragma once
#include <curl/curl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

static inline CURLcode megaton_curl_setopt_long(CURL *_Nonnull easy, CURLoption option, long value) {
    return curl_easy_setopt(easy, option, value);
}

static inline CURLcode megaton_curl_setopt_string(
    CURL *_Nonnull easy, CURLoption option, const char *_Nullable value) {
    return curl_easy_setopt(easy, option, value);
}

static inline CURLcode megaton_curl_setopt_pointer(CURL *_Nonnull easy, CURLoption option, void *_Nullable value) {
    return curl_easy_setopt(easy, option, value);
}

/// For WRITEFUNCTION and HEADERFUNCTION, which have the same shape.
typedef size_t (*megaton_curl_data_callback)(
    char *_Nullable bytes, size_t size, size_t count, void *_Nullable context);

static inline CURLcode megaton_curl_setopt_data_callback(
    CURL *_Nonnull easy, CURLoption option, megaton_curl_data_callback _Nonnull callback) {
    return curl_easy_setopt(easy, option, callback);
}

static inline CURLcode megaton_curl_setopt_opensocket(
    CURL *_Nonnull easy, curl_opensocket_callback _Nonnull callback) {
    return curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, callback);
}

/// Called when a connection stands, be it a new one or one that was there, before the request goes out on it.
static inline CURLcode megaton_curl_setopt_prereq(CURL *_Nonnull easy, curl_prereq_callback _Nonnull callback) {
    return curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, callback);
}

static inline CURLMcode megaton_curl_multi_setopt_long(CURLM *_Nonnull multi, CURLMoption option, long value) {
    return curl_multi_setopt(multi, option, value);
}

/// Called when a socket is to be watched for something else, or no longer.
static inline CURLMcode megaton_curl_multi_setopt_socket(
    CURLM *_Nonnull multi, curl_socket_callback _Nonnull callback, void *_Nonnull context) {
    curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, context);
    return curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, callback);
}

/// Called when the time changes at which libcurl has something to do.
static inline CURLMcode megaton_curl_multi_setopt_timer(
    CURLM *_Nonnull multi, curl_multi_timer_callback _Nonnull callback, void *_Nonnull context) {
    curl_multi_setopt(multi, CURLMOPT_TIMERDATA, context);
    return curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, callback);
}

/// Looks at all transfers, whatever libcurl waits for. It is deprecated, as each call costs a look at all of them.
static inline CURLMcode megaton_curl_multi_socket_all(CURLM *_Nonnull multi, int *_Nonnull running) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    return curl_multi_socket_all(multi, running);
#pragma GCC diagnostic pop
}

static inline CURLcode megaton_curl_setopt_offset(CURL *_Nonnull easy, CURLoption option, curl_off_t value) {
    return curl_easy_setopt(easy, option, value);
}

static inline CURLcode megaton_curl_getinfo_long(CURL *_Nonnull easy, CURLINFO info, long *_Nonnull value) {
    return curl_easy_getinfo(easy, info, value);
}

static inline CURLcode megaton_curl_getinfo_offset(CURL *_Nonnull easy, CURLINFO info, curl_off_t *_Nonnull value) {
    return curl_easy_getinfo(easy, info, value);
}

/// The string is the handle's, and lasts as long.
static inline CURLcode megaton_curl_getinfo_string(
    CURL *_Nonnull easy, CURLINFO info, char *_Nullable *_Nonnull value) {
    return curl_easy_getinfo(easy, info, value);
}

// Without these nullability marks Swift has the URL handle as an opaque pointer that may be nil everywhere.
static inline CURLU *_Nullable megaton_curl_url_parse(const char *_Nonnull text) {
    CURLU *url = curl_url();
    if (url && curl_url_set(url, CURLUPART_URL, text, 0) != CURLUE_OK) {
        curl_url_cleanup(url);
        url = NULL;
    }
    return url;
}

/// To be freed with `curl_free`; NULL if the URL has no such part.
static inline char *_Nullable megaton_curl_url_part(CURLU *_Nonnull url, CURLUPart part, unsigned int flags) {
    char *value = NULL;
    return curl_url_get(url, part, &value, flags) == CURLUE_OK ? value : NULL;
}
