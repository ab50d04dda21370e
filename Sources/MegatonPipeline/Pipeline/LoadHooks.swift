internal import FoundationNetworking

/// What a pipeline's delegate has to say about a load from an origin.
struct LoadHooks: Sendable {
    let dataLoader: @Sendable () -> any DataLoading
    /// The last look at the request before it is sent.
    let willLoadData: @Sendable (URLRequest) async throws -> URLRequest
}
