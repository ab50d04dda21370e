internal import Foundation

/// Revisions of local files, as last read by the pipeline.
final class FileRevisions: Sendable {
    private let revisions = Cache<String, String>(countLimit: 65536)

    func note(_ revision: String, of url: URL) { revisions.set(revision, for: url.absoluteString) }

    func revision(of url: URL) -> String? { revisions.value(for: url.absoluteString) }
}
