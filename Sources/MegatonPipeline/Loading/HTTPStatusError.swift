internal import Foundation

/// What a status other than 2xx means for a request (RFC 9110 section 15, RFC 6585).
enum HTTPStatusError {
    /// Characters of a media type that are repeated.
    static let maximumType = 256

    /// - Parameters:
    ///   - headers: names in lower case.
    ///   - url: for the message.
    static func error(status: Int, headers: [String: String], url: String) -> ImagePipeline.Error {
        let code: ImagePipeline.Error.Code =
            switch status {
            case 404, 410: .notFound
            case 401, 403: .accessDenied
            default: .httpStatus
            }
        let isRetryable = [408, 425, 429].contains(status) || (500..<600).contains(status)
        let type = headers["content-type"].map { String($0.prefix(maximumType)) }
        var error = ImagePipeline.Error(
            code,
            "\(Redaction.text(url)) answered \(status)\(type.map { ", \($0)" } ?? "").",
            isRetryable: isRetryable,
            retryAfter: headers["retry-after"].flatMap { retryAfter($0, now: Date()) },
            status: status,
            stage: .load
        )
        error.contentType = type
        return error
    }

    /// Seconds: a number, or a date of RFC 9110 section 5.6.7. At most a day is believed.
    static func retryAfter(_ value: String, now: Date) -> Double? {
        let day: Double = 24 * 3600
        if let seconds = Double(value) { return min(max(0, seconds), day) }
        return HTTPDate.parse(value, now: now).map { min(max(0, $0.timeIntervalSince(now)), day) }
    }
}
