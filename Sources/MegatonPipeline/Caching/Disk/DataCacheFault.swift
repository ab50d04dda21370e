internal import Foundation

/// An operation on a file that failed.
struct DataCacheFault: Error {
    let operation: String
    let path: String
    /// `errno`; 0 where the file itself was at fault.
    let code: Int32
    let reason: String

    init(_ operation: String, _ path: String, code: Int32 = errno) {
        self.operation = operation
        self.path = path
        self.code = code
        reason = String(cString: strerror(code))
    }

    init(_ operation: String, _ path: String, reason: String) {
        self.operation = operation
        self.path = path
        code = 0
        self.reason = reason
    }

    /// What happened, without the file: a bounded number of different words.
    var kind: String { "\(operation): \(reason)" }
    /// Whether the disk, or what its owner may have of it, is used up.
    var isFull: Bool { code == ENOSPC || code == EDQUOT }
}
