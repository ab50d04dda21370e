package import MegatonPipeline

/// Why a request got no rendition.
package enum RenditionError: Error, Sendable {
    /// The fetch or the render has failed, in this process or in a worker, or a rule forbids it.
    case failed(ImagePipeline.Error)
    /// The workers cannot be asked now; a sentence for clients.
    case unavailable(String)
    /// The workers have not ended the job in time.
    case overdue
}
