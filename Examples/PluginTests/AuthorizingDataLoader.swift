import Foundation
import FoundationNetworking
import MegatonPipeline

/// Adds a token to the requests to one host.
struct AuthorizingDataLoader: DataLoading {
    let loader: any DataLoading
    let host: String
    let token: @Sendable () -> String

    func loadData(
        with request: URLRequest,
        didReceiveData: @escaping @Sendable (Data, URLResponse) -> Void,
        completion: @escaping @Sendable ((any Error)?) -> Void
    ) -> any Cancellable {
        var request = request
        if request.url?.host() == host {
            request.setValue("Bearer \(token())", forHTTPHeaderField: "Authorization")
        }
        return loader.loadData(with: request, didReceiveData: didReceiveData, completion: completion)
    }
}
