package import Foundation
package import FoundationNetworking

// The origin's response, added to an error on its way to the caller.
extension ImageError {
    /// The same error with the origin's response, unless it has one already. A cancellation is not caused by the
    /// origin, so it is returned unchanged.
    ///
    /// - Parameters:
    ///   - response: nil if there was none, or if the bytes come from a cache.
    ///   - data: the body, or its first bytes.
    ///   - type: media type that was stored with a cache entry.
    package func with(_ response: URLResponse?, _ data: Data = Data(), type: String? = nil) -> Self {
        if code == .cancelled { return self }
        let http = response as? HTTPURLResponse
        var error = self
        error.status = error.status ?? http?.statusCode
        error.contentType = error.contentType ?? http?.mediaType ?? type
        error.reuse = error.reuse ?? http.flatMap { Reuse(headers: $0.lowercasedHeaders) }
        if let encoding = http?.bodyEncoding, [.unsupportedFormat, .decoderNotRegistered].contains(code) {
            error.message +=
                " The answer has Content-Encoding: \(encoding), which is not decoded; have the origin send the "
                + "image as it is."
        }
        if !data.isEmpty, isOfTheBytes { error.excerpt = error.excerpt ?? Excerpt.of(data) }
        return error
    }

    /// Whether the bytes are at fault, and not a lack of time or memory, or a cancellation.
    package var isOfTheBytes: Bool { ![.cancelled, .renderTimedOut, .tooCostly].contains(code) }
}
