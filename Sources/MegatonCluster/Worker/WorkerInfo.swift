internal import Foundation

/// What a worker tells the cluster about itself.
struct WorkerInfo: Sendable, Codable {
    var host: String
    var pid: Int
    /// Seconds since 1970, by the worker's clock: for people.
    var started: Int
    /// Jobs in hand at a time.
    var concurrency: Int
    var version: String
    /// Seconds between two signs of life. Nil from an older version.
    var renewal: Double?
    /// Where its process id means a process: see ``ProcessSpace``. Nil from an older version.
    var space: String?

    var json: String { WireJSON.text(self) }
}

extension WorkerInfo {
    /// Reads what `renew` stores: `<running> <JSON>`. Nil where another version of the program wrote it.
    init?(stored text: String) {
        guard let space = text.firstIndex(of: " "),
            let info = try? JSONDecoder().decode(WorkerInfo.self, from: Data(text[space...].utf8))
        else { return nil }
        self = info
    }
}
