public import AsyncHTTPClient
public import Foundation
public import FoundationNetworking
public import MegatonPipeline
import NIOCore
import NIOHTTP1

/// Implements data loading using AsyncHTTPClient.
public struct AsyncHTTPClientLoader: DataLoading {
    public let client: HTTPClient

    public init(client: HTTPClient = .shared) { self.client = client }

    public func loadData(
        with request: URLRequest,
        didReceiveData: @escaping @Sendable (Data, URLResponse) -> Void,
        completion: @escaping @Sendable ((any Error)?) -> Void
    ) -> any Cancellable {
        let load = Load()
        load.start { [client] in
            do {
                var outgoing = HTTPClientRequest(url: request.url?.absoluteString ?? "")
                outgoing.headers = HTTPHeaders(Array(request.allHTTPHeaderFields ?? [:]))
                let timeout = TimeAmount.seconds(Int64(request.timeoutInterval))
                let incoming = try await client.execute(outgoing, timeout: timeout)
                let fields = incoming.headers.map { ($0.name, $0.value) }
                let response = HTTPURLResponse(
                    url: incoming.url ?? request.url ?? URL(fileURLWithPath: "/"),
                    statusCode: Int(incoming.status.code),
                    httpVersion: nil,
                    headerFields: Dictionary(fields, uniquingKeysWith: { "\($0), \($1)" })
                )
                guard let response else { throw URLError(.badServerResponse) }
                for try await part in incoming.body {
                    load.call { didReceiveData(Data(part.readableBytesView), response) }
                }
                load.call { didReceiveData(Data(), response) }  // An empty body has a response too.
                load.call { completion(nil) }
            } catch {
                load.call { completion(error) }
            }
        }
        return load
    }
}

/// The lock is held during a callback, so none starts after `cancel()`. It is recursive, because `cancel()` may be
/// called from within a callback.
private final class Load: Cancellable, @unchecked Sendable {
    private let lock = NSRecursiveLock()
    private var task: Task<Void, Never>?

    /// `cancel()` ends the task, and so does the request's timeout.
    func start(_ work: @escaping @Sendable () async -> Void) { lock.withLock { task = Task { await work() } } }

    func call(_ body: () -> Void) { lock.withLock { if task?.isCancelled == false { body() } } }

    func cancel() { lock.withLock { task?.cancel() } }
}
