internal import Foundation

/// What local files looked like when somebody looked last.
final class FileRevisions: Sendable {
    private let revisions = Cache<String, String>(countLimit: 65536)

    func note(_ revision: String, of url: URL) { revisions.set(revision, for: url.absoluteString) }

    func revision(of url: URL) -> String? { revisions.value(for: url.absoluteString) }
}
