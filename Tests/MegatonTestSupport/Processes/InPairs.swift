/// Runs a body for each element, for two of them at a time.
///
/// For bodies that occupy one processor each: with renders, or with a program that refuses its command line, for which
/// the parser of a debug build examines all declarations.
///
/// - Throws: the first error of a body; the other body that runs at the time ends before.
public func inPairs<Element: Sendable>(
    _ elements: [Element],
    _ body: @escaping @Sendable (Element) async throws -> Void
) async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
        for (index, element) in elements.enumerated() {
            if index >= 2 { try await group.next() }
            group.addTask { try await body(element) }
        }
        try await group.waitForAll()
    }
}
