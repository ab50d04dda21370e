public import Foundation

/// Grants every permit: for a pipeline without host limits.
public struct UnlimitedFetches: FetchLimiting {
    public init() {}

    public func acquire(for url: URL) async throws(ImageError) -> FetchPermit {
        FetchPermit(host: url.host() ?? "", token: nil)
    }

    public func release(_ permit: FetchPermit, outcome: OriginOutcome) async {}
}
