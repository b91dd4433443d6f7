package rule

// Recurs are the statuses of rows that are not at their end, as a list of SQL.
const Recurs = "'waiting', 'delayed', 'accepted', 'running'"
