/// `traceparent` of W3C Trace Context, version 00: `00-<trace id>-<parent id>-<flags>` in lower-case hex digits.
package enum TraceParent {
    /// Follows "allowed " in a message about an invalid value.
    static let allowed =
        "are texts of W3C Trace Context such as 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    package static func isValid(_ text: String) -> Bool {
        let parts = text.utf8.split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
        guard parts.map(\.count) == [2, 32, 16, 2], parts[0].elementsEqual("00".utf8) else { return false }
        let areDigits = parts.joined().allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"): true
            default: false
            }
        }
        // An id of zeros stands for none.
        return areDigits && parts[1...2].allSatisfy { id in id.contains { $0 != UInt8(ascii: "0") } }
    }
}
