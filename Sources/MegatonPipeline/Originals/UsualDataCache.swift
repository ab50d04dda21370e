internal import Foundation

/// Placeholder for the caches of a pipeline's configuration, which need not be a `DataCaching`: a cluster's flights are
/// none.
struct UsualDataCache: DataCaching {
    func cachedData(for key: String) async -> Data? { nil }

    func storeData(_ data: Data, for key: String) async {}
}
