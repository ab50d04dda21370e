internal import Foundation
internal import FoundationNetworking

/// What a pipeline's delegate has to say about a load from an origin.
struct LoadHooks: Sendable {
    let dataLoader: @Sendable () -> any DataLoading
    /// The last look at the request before it is sent.
    let willLoadData: @Sendable (URLRequest) async throws -> URLRequest
    /// What is kept in the place of an original that has come; nil keeps nothing.
    let willCache: @Sendable (Data) async -> Data?
}
