internal import Foundation
internal import FoundationNetworking

/// Delegate methods that take part in a load from an origin.
struct LoadHooks: Sendable {
    let dataLoader: @Sendable () -> any DataLoading
    /// Last change to the request before it is sent.
    let willLoadData: @Sendable (URLRequest) async throws -> URLRequest
    /// Bytes to store in place of a fetched original; nil stores nothing.
    let willCache: @Sendable (Data) async -> Data?
}
