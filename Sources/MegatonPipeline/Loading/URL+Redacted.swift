internal import Foundation

extension URL {
    /// The URL for messages and logs.
    var redacted: String { Redaction.url(absoluteString) }
}
