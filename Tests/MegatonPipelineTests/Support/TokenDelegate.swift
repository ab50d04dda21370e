import Foundation
import FoundationNetworking
import MegatonPipeline

/// Adds a token just before a request is sent; the token may have to be fetched first.
final class TokenDelegate: ImagePipeline.Delegate {
    let host: String
    let token: @Sendable () async throws -> String

    init(host: String, token: @escaping @Sendable () async throws -> String) {
        self.host = host
        self.token = token
    }

    func willLoadData(
        for request: ImageRequest,
        urlRequest: URLRequest,
        pipeline: ImagePipeline
    ) async throws -> URLRequest {
        guard urlRequest.url?.host() == host else { return urlRequest }
        var urlRequest = urlRequest
        urlRequest.setValue("Bearer \(try await token())", forHTTPHeaderField: "Authorization")
        return urlRequest
    }
}
