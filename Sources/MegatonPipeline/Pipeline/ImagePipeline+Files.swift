internal import Foundation

// A local file has no validators: that it has changed is told by its size and the time of its modification, which are part
// of the names of what is made of it.
extension ImagePipeline {
    /// The request as it is loaded: of a local file with what that looks like now. A file thread looks.
    ///
    /// - Throws: what is wrong with the file, or with its URL.
    func revised(_ request: ImageRequest) async throws(Error) -> ImageRequest {
        guard request.isFile, let url = request.url else { return request }
        guard case .file(let file) = try await originals.source(of: request).place else { return request }
        fileRevisions.note(file.revision, of: url)
        var request = request
        request.revision = file.revision
        return request
    }

    /// The request as who may not wait has it: of a local file with what that looked like when this pipeline saw it
    /// last. One that it has not seen has no names that a load would find.
    func lastSeen(_ request: ImageRequest) -> ImageRequest {
        guard request.isFile, request.revision == nil, let url = request.url else { return request }
        var request = request
        request.revision = fileRevisions.revision(of: url)
        return request
    }
}
