internal import Foundation

/// What a status other than 2xx means for a request (RFC 9110 section 15, RFC 6585).
enum HTTPStatusError {
    /// - Parameter headers: names in lower case.
    static func error(status: Int, headers: [String: String], url: String) -> ImagePipeline.Error {
        let code: ImagePipeline.Error.Code =
            switch status {
            case 404, 410: .notFound
            case 401, 403: .accessDenied
            default: .httpStatus
            }
        let isRetryable = [408, 425, 429].contains(status) || (500..<600).contains(status)
        let type = headers["content-type"].map { ", \($0)" } ?? ""
        return ImagePipeline.Error(
            code,
            "\(url) answered \(status)\(type).",
            isRetryable: isRetryable,
            retryAfter: headers["retry-after"].flatMap { retryAfter($0, now: Date()) },
            status: status
        )
    }

    /// Seconds: a number, or a date of RFC 9110 section 5.6.7. At most a day is believed.
    static func retryAfter(_ value: String, now: Date) -> Double? {
        let day: Double = 24 * 3600
        if let seconds = Double(value) { return min(max(0, seconds), day) }
        let format = DateFormatter()
        format.locale = Locale(identifier: "en_US_POSIX")
        format.timeZone = TimeZone(identifier: "GMT")
        format.dateFormat = "EEE, dd MMM yyyy HH:mm:ss zzz"
        return format.date(from: value).map { min(max(0, $0.timeIntervalSince(now)), day) }
    }
}
