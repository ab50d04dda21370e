internal import Foundation
internal import FoundationNetworking

/// Decides which responses contain the requested body (RFC 9110 section 15).
enum ResponseRules {
    /// The error for an invalid response; nil if it is valid.
    ///
    /// - Parameters:
    ///   - headers: names in lower case.
    ///   - url: for the message.
    static func validationError(
        status: Int,
        headers: [String: String],
        of request: URLRequest,
        url: @autoclosure () -> String
    ) -> ImageError? {
        let isGET = (request.httpMethod ?? "GET").uppercased() == "GET"
        switch status {
        case 204 where isGET, 205 where isGET:
            return ImageError(.dataIsEmpty, "\(url()) answered \(status), which has no body.", status: status)
        case 206 where request.value(forHTTPHeaderField: "Range") == nil:
            return ImageError(
                .httpStatus,
                "\(url()) answered a request for the whole with a part (206).",
                status: status
            )
        case 200..<300: return nil
        default: return HTTPStatusError.error(status: status, headers: headers, url: url())
        }
    }
}
