internal import Foundation
internal import FoundationNetworking

/// Maps statuses other than 2xx to errors (RFC 9110 section 15, RFC 6585).
package enum HTTPStatusError {
    /// Characters of a media type that a message repeats.
    static let maximumType = 256

    /// - Parameters:
    ///   - headers: names in lower case.
    ///   - url: for the message.
    package static func error(status: Int, headers: [String: String], url: String) -> ImageError {
        let code: ImageError.Code =
            switch status {
            case 404, 410: .notFound
            case 401, 403: .accessDenied
            default: .httpStatus
            }
        let isRetryable = [408, 425, 429].contains(status) || (500..<600).contains(status)
        let type = headers["content-type"].map { String($0.prefix(maximumType)) }
        let delay = headers["retry-after"].flatMap { retryAfter($0, now: Date()) }.flatMap { $0 > 0 ? $0 : nil }
        let wish = delay.map { ", and asks not to be asked again for \(Int($0.rounded(.up))) s" } ?? ""
        var error = ImageError(
            code,
            "\(Redaction.text(url)) answered \(status)\(type.map { ", \($0)" } ?? "")\(wish).",
            isRetryable: isRetryable,
            retryAfter: delay,
            status: status,
            stage: .load
        )
        error.contentType = type
        error.requestedDelay = delay
        error.reuse = ImageError.Reuse(headers: headers)
        return error
    }

    /// Seconds, from a number or a date (RFC 9110 section 5.6.7); at most a year, nil if malformed.
    static func retryAfter(_ value: String, now: Date) -> Double? {
        let seconds = Double(value) ?? HTTPDate.parse(value, now: now)?.timeIntervalSince(now)
        // Swift parses "inf" and "nan" as numbers.
        return seconds.flatMap { $0.isFinite ? min(max(0, $0), CacheControl.longest) : nil }
    }
}

extension HTTPURLResponse {
    /// Media type that the origin declared, truncated to the length of the longest valid type.
    var mediaType: String? {
        lowercasedHeaders["content-type"].map { String($0.prefix(HTTPStatusError.maximumType)) }
    }
}
