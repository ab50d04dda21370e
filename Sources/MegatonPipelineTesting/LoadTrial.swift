import Foundation
import FoundationNetworking
import MegatonPipeline

/// One running check of a loader.
struct LoadTrial: Sendable {
    typealias Resource = ConformanceOrigin.Resource

    /// A load that was started.
    struct Load: Sendable {
        let recorder: LoadRecorder
        let handle: any Cancellable

        func cancel() {
            handle.cancel()
            recorder.noteCancelled()
        }
    }

    let conformance: DataLoadingConformance
    let check: DataLoadingConformance.Check

    // MARK: - Loads

    func start(_ resource: Resource, headers: [String: String] = [:], recorder: LoadRecorder = .init()) -> Load {
        start(conformance.origin.url(resource), headers: headers, recorder: recorder)
    }

    func start(_ url: URL, headers: [String: String] = [:], recorder: LoadRecorder = .init()) -> Load {
        var request = URLRequest(url: url)
        for (name, value) in headers { request.setValue(value, forHTTPHeaderField: name) }
        let handle = conformance.loader.loadData(
            with: request,
            didReceiveData: recorder.receive,
            completion: recorder.complete
        )
        return Load(recorder: recorder, handle: handle)
    }

    /// Waits until the condition holds, and throws if it does not within `patience`.
    @discardableResult
    func wait(
        for load: Load,
        _ what: String,
        until isMet: @escaping @Sendable (LoadRecord) -> Bool
    ) async throws(ConformanceFailure) -> LoadRecord {
        guard let record = await load.recorder.wait(conformance.patience, until: isMet) else {
            let record = load.recorder.record
            load.cancel()
            throw failure("\(what) did not come within \(conformance.patience); there were \(record.summary)")
        }
        return record
    }

    func completion(of load: Load) async throws(ConformanceFailure) -> LoadRecord {
        let record = try await wait(for: load, "completion") { $0.isComplete }
        try requireNoViolation(record)
        return record
    }

    /// Runs further loads to their end, which gives late calls and chunks of earlier loads time to arrive.
    func settle() async throws(ConformanceFailure) {
        for resource in [Resource.bytes(1000), .chunks(10), .bytes(1000)] {
            try requireSuccess(try await completion(of: start(resource)), resource)
        }
    }

    // MARK: - Requirements

    func failure(_ found: String) -> ConformanceFailure {
        ConformanceFailure(check: check.rawValue, rule: check.rule, found: found)
    }

    func require(_ condition: Bool, _ found: @autoclosure () -> String) throws(ConformanceFailure) {
        if !condition { throw failure(found()) }
    }

    func requireNoViolation(_ record: LoadRecord) throws(ConformanceFailure) {
        if let violation = record.violations.first { throw failure(violation) }
    }

    func requireSuccess(_ record: LoadRecord, _ resource: Resource) throws(ConformanceFailure) {
        try requireNoViolation(record)
        try require(record.error == nil, "\(resource.path): \(record.summary)")
        let body = resource.body
        try require(record.body.count == body.count, "of \(body.count) bytes there were \(record.summary)")
        try require(record.body == body, "\(resource.path): the bytes are not those that were sent")
    }
}
