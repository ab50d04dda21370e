internal import Foundation

extension URL {
    /// The URL for messages and logs, without parts that may be secret.
    package var redacted: String { Redaction.url(absoluteString) }
}
