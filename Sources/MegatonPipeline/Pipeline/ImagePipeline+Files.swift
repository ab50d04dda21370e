internal import Foundation

// A local file has no validators. Changes are detected by its size and modification time, which are part of the keys of
// all results made from it.
extension ImagePipeline {
    /// The request as it is loaded: for a local file with its current revision, read on a file thread.
    ///
    /// - Throws: the error of the file, or of its URL.
    func revised(_ request: ImageRequest) async throws(Error) -> ImageRequest {
        guard request.isFile, let url = request.url else { return request }
        guard case .file(let file) = try await originals.source(of: request).location else { return request }
        fileRevisions.note(file.revision, of: url)
        var request = request
        request.revision = file.revision
        return request
    }

    /// The request for a caller that must not wait: for a local file with the revision that this pipeline read last.
    /// Without such a revision, its keys match no load.
    func lastSeen(_ request: ImageRequest) -> ImageRequest {
        guard request.isFile, request.revision == nil, let url = request.url else { return request }
        var request = request
        request.revision = fileRevisions.revision(of: url)
        return request
    }
}

/// Revisions of local files, as last read by the pipeline.
final class FileRevisions: Sendable {
    private let revisions = Cache<String, String>(countLimit: 65536)

    func note(_ revision: String, of url: URL) { revisions.set(revision, for: url.absoluteString) }

    func revision(of url: URL) -> String? { revisions.value(for: url.absoluteString) }
}
