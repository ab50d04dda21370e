import Foundation
import MegatonCluster

/// Outputs of the present run whose names differ from those of earlier outputs in case alone.
///
/// If the file system ignores case, as ext4 does in a directory with casefold, both names lead to one file, which is an
/// output of the present run. The names alone do not show that: the files have to be compared.
struct NameVariants: Sendable {
    /// Earlier names, sorted: 32 bits that are equal for all variants, and 32 bits of the name itself.
    private var earlier: [UInt64] = []
    /// Present names that are variants of earlier ones, by the bits that are equal for all of them.
    private var present: [UInt32: [String]] = [:]
    private var count = 0
    /// Whether there are more present names than can be remembered.
    private(set) var isOverfull = false

    /// Maximum number of present names that are remembered.
    static let limit = 1_000_000
    /// Maximum number of variants of one name: they are compared one by one.
    private static let groupLimit = 64

    /// Adds the name of an earlier output.
    mutating func add(_ name: String) {
        earlier.append(UInt64(Self.group(of: name)) << 32 | UInt64(Self.hash(name)))
    }

    /// Ends the additions: present outputs can be noted from now on.
    mutating func seal() {
        earlier.sort()
        var kept = 0
        // By position: an iterator would hold a second array.
        for position in earlier.indices where kept == 0 || earlier[kept - 1] != earlier[position] {
            earlier[kept] = earlier[position]
            kept += 1
        }
        earlier.removeLast(earlier.count - kept)
    }

    /// Notes the name of a present output, if an earlier one has another variant of it.
    mutating func note(_ name: String) {
        let group = Self.group(of: name)
        guard hasEarlier(in: group, besides: Self.hash(name)) else { return }
        let known = present[group] ?? []
        // By bytes: equal strings may be different names.
        if known.contains(where: { $0.utf8.elementsEqual(name.utf8) }) { return }
        guard count < Self.limit, known.count < Self.groupLimit else {
            isOverfull = true
            return
        }
        present[group, default: []].append(name)
        count += 1
    }

    /// Names of present outputs that may lead to the same file as this name of an earlier one.
    func names(of name: String) -> [String] {
        (present[Self.group(of: name)] ?? []).filter { !$0.utf8.elementsEqual(name.utf8) }
    }

    private func hasEarlier(in group: UInt32, besides hash: UInt32) -> Bool {
        let first = UInt64(group) << 32
        var (start, end) = (0, earlier.count)
        while start < end {
            let middle = (start + end) / 2
            if earlier[middle] < first { start = middle + 1 } else { end = middle }
        }
        // At most two steps, as a name is there once.
        while start < earlier.count, earlier[start] >> 32 == UInt64(group) {
            if UInt32(truncatingIfNeeded: earlier[start]) != hash { return true }
            start += 1
        }
        return false
    }

    /// Bits that are equal for all names that a file system may take for one. Names of other groups are different
    /// files, and those of one group may be.
    private static func group(of name: String) -> UInt32 { hash(folded(name)) }

    private static func hash(_ name: String) -> UInt32 {
        UInt32(truncatingIfNeeded: OutcomeHistory.identity(of: Data(name.utf8)).low)
    }

    /// The name without case, in the way of Linux: decomposed, and without characters that are not shown.
    static func folded(_ name: String) -> String {
        if name.utf8.allSatisfy({ $0 < 0x80 }) { return name.lowercased() }
        // By way of upper case, in which the letters are equal that have two lower cases, and ß is SS.
        let text = name.decomposedStringWithCanonicalMapping.uppercased().lowercased()
        var scalars = String.UnicodeScalarView()
        for scalar in text.unicodeScalars where !scalar.properties.isDefaultIgnorableCodePoint {
            scalars.append(scalar)
        }
        return String(scalars).decomposedStringWithCanonicalMapping
    }
}
