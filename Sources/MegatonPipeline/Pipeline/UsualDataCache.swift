internal import Foundation

/// Stands for the caches of a pipeline's configuration, which need not be a `DataCaching`: a cluster's flights are not.
struct UsualDataCache: DataCaching {
    func cachedData(for key: String) async -> Data? { nil }

    func storeData(_ data: Data, for key: String) async {}
}
