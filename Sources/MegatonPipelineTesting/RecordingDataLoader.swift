internal import Crypto
public import Foundation
public import FoundationNetworking
public import MegatonPipeline
import Synchronization

/// Records the responses of a loader in a folder and replays them: for tests that need real responses without a
/// network.
///
/// Each response is two files: `….json` holds its head, or the error it ended with, `….data` its body. Header fields of
/// requests and cookies are not written, nor are user, password and query of the URL.
public final class RecordingDataLoader: TimedDataLoading {
    /// Source of the responses.
    public enum Mode: Sendable {
        /// From the loader; each response is recorded and replaces an earlier recording.
        case record(any DataLoading)
        /// From the folder; a request without a recording fails with `.notFound`.
        case replay
        /// From the folder, or from the loader if there is no recording yet.
        case recordMissing(any DataLoading)
    }

    private struct Recording: Codable {
        /// For human readers only.
        var url: String
        var response: StoredResponse?
        var error: ImageError?
    }

    private let folder: URL
    private let mode: Mode
    private let files = ThreadPool(name: "megaton-record", count: 1)

    /// Creates a loader with a folder of recordings.
    public init(folder: URL, _ mode: Mode) {
        self.folder = folder
        self.mode = mode
    }

    deinit { files.stop() }

    /// Timings are those of the loader; a replayed response has none.
    public func loadData(
        with request: URLRequest,
        didReceiveData: @escaping @Sendable (Data, URLResponse) -> Void,
        didCollect: @escaping @Sendable (LoadTimings) -> Void,
        completion: @escaping @Sendable ((any Error)?) -> Void
    ) -> any Cancellable {
        let relay = RelayedLoad(
            .init(didReceiveData: didReceiveData, didCollect: didCollect, completion: completion)
        )
        switch mode {
        case .record(let loader): record(request, loader, relay)
        case .replay: replay(request, nil, relay)
        case .recordMissing(let loader): replay(request, loader, relay)
        }
        return relay
    }

    // MARK: - Replaying

    private func replay(_ request: URLRequest, _ loader: (any DataLoading)?, _ relay: RelayedLoad) {
        let files = files
        let (head, body) = names(request)
        relay.run { [self] in
            do {
                let (recording, data) = try await files.run {
                    let recording = try JSONDecoder().decode(Recording.self, from: try Data(contentsOf: head))
                    return (recording, recording.response == nil ? Data() : try Data(contentsOf: body))
                }
                if let url = request.url, let response = recording.response?.response(for: url) {
                    relay.receive(data, response)
                }
                relay.complete(recording.error)
            } catch let error as CocoaError where error.code == .fileReadNoSuchFile || error.code == .fileNoSuchFile {
                if let loader { return record(request, loader, relay) }
                let url = request.url?.redacted ?? ""
                relay.complete(ImageError(.notFound, "There is no recording of \(url) in \(folder.path)."))
            } catch {
                relay.complete(
                    ImageError(.incompleteBody, "\(head.path) is not a recording: \(error)", isRetryable: false)
                )
            }
        }
    }

    // MARK: - Recording

    private struct Copy {
        var data = Data()
        var response: URLResponse?
        var timings: LoadTimings?
    }

    private final class Recorder: Sendable {
        let copy = Mutex(Copy())
    }

    private func record(_ request: URLRequest, _ loader: any DataLoading, _ relay: RelayedLoad) {
        let recorder = Recorder()
        relay.begin {
            loader.timedLoad(
                with: request,
                didReceiveData: { data, response in
                    recorder.copy.withLock { copy in
                        copy.data.append(data)
                        copy.response = response
                    }
                    relay.receive(data, response)
                },
                didCollect: { timings in recorder.copy.withLock { $0.timings = timings } },
                completion: { [self] error in
                    let copy = recorder.copy.withLock { $0 }
                    relay.run { [self] in
                        do {
                            try await write(copy, error, request)
                            relay.complete(error, copy.timings)
                        } catch let failure {
                            let text = "A recording cannot be written to \(folder.path): \(failure)"
                            relay.complete(error ?? ImageError(.outputFailed, text), copy.timings)
                        }
                    }
                }
            )
        }
    }

    private func write(_ copy: Copy, _ error: (any Error)?, _ request: URLRequest) async throws {
        let recording = Recording(
            url: request.url?.redacted ?? "",
            response: (copy.response as? HTTPURLResponse).map(StoredResponse.init),
            error: error as? ImageError
        )
        // Errors of other types cannot be encoded, and their responses are incomplete.
        guard error == nil || recording.error != nil else { return }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        let json = try encoder.encode(recording)
        let (head, body) = names(request)
        try await files.run { [folder] in
            // Accessible to the owner only: a response may have required a credential.
            try FileManager.default.createDirectory(
                at: folder,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
            if recording.response != nil { try copy.data.write(to: body, options: .atomic) }
            // Written last: a recording exists once its head does.
            try json.write(to: head, options: .atomic)
        }
    }

    /// Paths of the two files; method, URL, range and condition determine their names.
    private func names(_ request: URLRequest) -> (head: URL, body: URL) {
        var fields = [(request.httpMethod ?? "GET").uppercased(), request.url?.absoluteString ?? ""]
        for name in ["Range", "If-None-Match", "If-Modified-Since"] {
            fields.append(request.value(forHTTPHeaderField: name) ?? "")
        }
        let digest = SHA256.hash(data: Data(fields.joined(separator: "\n").utf8)).hexDigits.prefix(32)
        return (folder.appendingPathComponent("\(digest).json"), folder.appendingPathComponent("\(digest).data"))
    }
}

extension RecordingDataLoader: SecurityRelaxationReporting {
    package var securityRelaxations: [String] {
        switch mode {
        case .record(let loader), .recordMissing(let loader):
            (loader as? any SecurityRelaxationReporting)?.securityRelaxations ?? []
        case .replay: []
        }
    }
}

extension RecordingDataLoader: LoadLimitDeclaring {
    package var loadLimits: DataLoader.Configuration? {
        switch mode {
        case .record(let loader), .recordMissing(let loader): (loader as? any LoadLimitDeclaring)?.loadLimits
        case .replay: nil
        }
    }
}
