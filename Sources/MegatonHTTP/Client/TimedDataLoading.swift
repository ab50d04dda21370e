public import Foundation
public import FoundationNetworking

/// A loader that reports the timings of its loads.
public protocol TimedDataLoading: DataLoading {
    /// Loads like ``DataLoading/loadData(with:didReceiveData:completion:)``.
    ///
    /// - Parameter didCollect: called before the completion, with all timings. Before that it may be called with those
    ///   that are known when the first bytes have arrived. Not called after `cancel()`.
    func loadData(
        with request: URLRequest,
        didReceiveData: @escaping @Sendable (Data, URLResponse) -> Void,
        didCollect: @escaping @Sendable (LoadTimings) -> Void,
        completion: @escaping @Sendable ((any Error)?) -> Void
    ) -> any Cancellable
}

extension TimedDataLoading {
    public func loadData(
        with request: URLRequest,
        didReceiveData: @escaping @Sendable (Data, URLResponse) -> Void,
        completion: @escaping @Sendable ((any Error)?) -> Void
    ) -> any Cancellable {
        loadData(with: request, didReceiveData: didReceiveData, didCollect: { _ in }, completion: completion)
    }
}

extension DataLoading {
    /// Loads with timings, if the loader reports them.
    package func timedLoad(
        with request: URLRequest,
        didReceiveData: @escaping @Sendable (Data, URLResponse) -> Void,
        didCollect: @escaping @Sendable (LoadTimings) -> Void,
        completion: @escaping @Sendable ((any Error)?) -> Void
    ) -> any Cancellable {
        guard let timed = self as? any TimedDataLoading else {
            return loadData(with: request, didReceiveData: didReceiveData, completion: completion)
        }
        return timed.loadData(
            with: request,
            didReceiveData: didReceiveData,
            didCollect: didCollect,
            completion: completion
        )
    }
}
