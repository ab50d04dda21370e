// libcurl's setopt is variadic, which Swift cannot call: one wrapper per type of argument.
#pragma once
#include <curl/curl.h>

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

static inline CURLMcode megaton_curl_multi_setopt_long(CURLM *_Nonnull multi, CURLMoption option, long value) {
    return curl_multi_setopt(multi, option, value);
}
